"""Makes results/speed/gpu/: what only a GPU can show, in nine minutes without network.

    python scripts/gpu.py [PART ...]    # contract, scan, steps, pace, rollout, learning; all if left out
    python scripts/gpu.py --smoke       # the same on the CPU with tiny sizes

Needs pytest-xdist and the tests. Every part is a process with a time limit: an error, a hang or a GPU out of memory
ends no other part, and what was measured before stays in the table.
"""

import argparse
import contextlib
import gc
import importlib
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from results_folder import RESULTS, provenance, table, write_report

import decision_rnn
from decision_rnn.backbones.ops.recurrence import linear_recurrence
from decision_rnn.runs.folder import checkpoints_of
from decision_rnn.training.graph import WARM_UP
from decision_rnn.utils.workers import PROGRAM, available_cores

sys.path.append(str(Path(__file__).with_name("bench")))

import rollout as rollout_bench
from measure import Row, Work, format_rows, measure, seconds_of
from train import PRECISIONS, backbone_step, published_step

ROOT = Path(__file__).parents[1]
SECONDS = {"contract": 170, "scan": 50, "steps": 100, "pace": 40, "rollout": 80, "learning": 80}
"""The parts and their time limits."""
PUBLISHED = "decision-transformer"
LIBRARIES = {"JAX-CORL, GTX 1080 Ti": 11 * 60.0, "CORL, GTX 1080 Ti": 42 * 60.0}
"""Seconds of a training of the Decision Transformer by JAX-CORL's README, which differs from its code in the steps."""
CUDA_TESTS = (
    "tests/backbones/ops/test_recurrence_triton.py",
    "tests/training/test_graph_cuda.py",
    "tests/contract/test_contract_cuda.py",
)
FAST = (
    "not interpreter and"
    " (not (long_sequences or dense_resets) or (not stack and (dense_resets or mingru or minlstm or lru or hgrn)))"
)
"""Of every layer, all but what takes minutes: long loops over time. Nothing in Triton's interpreter, which does not run
with every version of NumPy."""
Rows = Iterator[Row | str]
"""What a part measures; strings are errors."""


@dataclass(frozen=True)
class Sizes:
    """How much the parts do: `contract` arguments of pytest, `paced` and `trained` steps, `played` episodes."""

    device: str = "cuda"
    rounds: int = 3
    contract: tuple[str, ...] = (*CUDA_TESTS, "-k", FAST)
    scans: tuple[tuple[tuple[int, int, int], torch.dtype], ...] = (
        ((512, 64, 128), torch.bfloat16),
        ((8, 1024, 1536), torch.float32),
        ((1, 8192, 2048), torch.bfloat16),
        ((512, 64, 128), torch.complex64),
    )
    backbones: tuple[str, ...] = ("mingru", "minlstm", "lru", "transformer", "lstm", "mamba", "mlp")
    batches: tuple[int, ...] = (64, 4096)
    graphs: tuple[bool, ...] = (False, True)
    paced: int = 5_000
    episodes: int = 100
    dataset: str = "hopper-medium"
    trained: int = 1_000
    played: int = 16


SMOKE = Sizes(
    device="cpu",
    rounds=1,
    contract=("tests/contract/test_contract.py", "-k", "causal and not stack"),
    scans=(((2, 4, 8), torch.float32), ((2, 4, 8), torch.complex64)),
    backbones=("mingru", "mlp"),
    batches=(2,),
    graphs=(False,),
    paced=2,
    episodes=2,
    dataset="local/synthetic",
    trained=80,
    played=1,
)


def contract(sizes: Sizes) -> Rows:
    """Tests of every layer's contract, of the kernel and of captured steps, on three of four cores."""
    processes = str(max(1, 3 * available_cores() // 4))
    command = [sys.executable, "-m", "pytest", "-vv", "-p", "no:cacheprovider", "-n", processes, *sizes.contract]
    with tempfile.TemporaryFile() as file:  # the end of a pipe waits for pytest's own processes, which may outlive it
        options: Any = {"stdout": file, "stderr": subprocess.STDOUT, "cwd": ROOT}
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, timeout=SECONDS["contract"] - 10, **options)
        file.seek(0)
        output = file.read().decode()
    if (collected := re.search(r"\[(\d+) items?\]", output)) is None:
        raise RuntimeError(f"pytest ran no test: {output[-300:]}")
    results = re.findall(r"^\[gw\d+\] \[ *\d+%\] ([A-Z]+) (\S+)", output, re.MULTILINE)
    failures = [f"{result} {test}" for result, test in results if result in ("FAILED", "ERROR")]
    count, numbers = int(collected[1]), Counter(result.lower() for result, _ in results)
    numbers["not run"] = count - len(results)
    for name in ("passed", "failed", "error", "skipped", "not run"):
        yield Row(f"contract/{name}", numbers[name], "tests", "contract/all", count, numbers[name] / count)
    yield from failures[:10]


def scan(sizes: Sizes) -> Rows:
    """GB/s of the recurrence beside a copy's; the bytes are those of its arguments and results, once each."""
    for shape, dtype in sizes.scans:
        label = f"scan/{'x'.join(map(str, shape))}/{str(dtype).removeprefix('torch.')}"
        sets = 2
        if sizes.device == "cuda":  # as many inputs as keep each call's own out of the L2 cache
            sets += 4 * torch.cuda.get_device_properties(0).L2_cache_size // (3 * math.prod(shape) * dtype.itemsize)
        calls = recurrences(shape, dtype, sets, sizes.device)
        works = {name: repeated(call, sets, sizes.device) for name, (call, _) in calls.items()}
        seconds = measure(works, sizes.rounds, sizes.device)
        speeds = {name: calls[name][1] * sets / seconds[name] / 1e9 for name in works}
        for name, speed in speeds.items():
            yield Row(f"{label}/{name}", speed, "GB/s", f"{label}/copy", speeds["copy"], speed / speeds["copy"])
    if not find_spec("triton"):
        yield "Triton is not installed: the kernel was not measured"


def recurrences(
    shape: tuple[int, int, int], dtype: torch.dtype, sets: int, device: str
) -> dict[str, tuple[Callable[[int], object], int]]:
    """By name, functions of the number of a set of inputs, and the bytes that each has to move."""
    wide = torch.promote_types(dtype, torch.float32)  # that of states and their gradients
    a, b, grad = (torch.rand(sets, *shape, device=device).to(kind) for kind in (dtype, dtype, wide))
    initial = torch.zeros(shape[0], shape[2], dtype=wide, device=device)
    narrow_bytes, wide_bytes = (math.prod(shape) * kind.itemsize for kind in (dtype, wide))
    forward_bytes = 2 * narrow_bytes + wide_bytes
    copied = torch.zeros(sets, 2, forward_bytes // 2, dtype=torch.uint8, device=device)

    def differentiated(i: int) -> object:
        inputs = a[i].requires_grad_(), b[i].requires_grad_()
        return torch.autograd.grad(linear_recurrence(*inputs, initial), inputs, grad[i])

    calls: dict[str, tuple[Callable[[int], object], int]] = {
        "copy": (lambda i: copied[i, 0].copy_(copied[i, 1]), forward_bytes),
        "forward": (lambda i: linear_recurrence(a[i], b[i], initial), forward_bytes),
        "forward and backward": (differentiated, 5 * narrow_bytes + 3 * wide_bytes),
    }
    if find_spec("triton"):
        kernels = importlib.import_module("decision_rnn.backbones.ops.recurrence_triton")
        calls["kernel, forward"] = (lambda i: kernels.states(a[i], b[i], initial), forward_bytes)
        calls["kernel, backward"] = (lambda i: kernels.adjoint(a[i], grad[i]), narrow_bytes + 2 * wide_bytes)
    return calls


def repeated(call: Callable[[int], object], sets: int, device: str) -> Work:
    """The calls with every number; on CUDA as one graph, since some take less time than to launch them."""

    def calls() -> list[object]:
        return [call(i) for i in range(sets)]

    if device != "cuda":
        return calls
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        calls()  # what a first call compiles or tunes cannot be captured
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph):
        results = calls()

    return partial(lambda _: graph.replay(), results)  # while all results are kept, they share no memory


def steps(sizes: Sizes) -> Rows:
    """Milliseconds of a training step, eager and captured as a CUDA graph, and the most memory that it takes; of the
    Decision Transformer at the first batch size."""
    makers: dict[str, Callable[..., Work]] = {name: partial(backbone_step, name) for name in sizes.backbones}
    makers[PUBLISHED] = partial(published_step, dropout=0.1)
    cases = [
        (name, batch) for batch in sizes.batches for name in makers if name != PUBLISHED or batch == sizes.batches[0]
    ]
    times: dict[str, float] = {}
    with synthetic(sizes) as store:
        for (name, batch), precision, graph in itertools.product(cases, PRECISIONS, sizes.graphs):
            eager = f"steps/{name}/{batch}/{precision}"
            label = eager + "/captured" * graph
            options = {"batch_size": batch, "precision": precision, "cuda_graph": graph, "device": sizes.device}
            try:
                gc.collect()  # the last trainer, which refers to itself
                if sizes.device == "cuda":
                    torch.cuda.empty_cache()
                    torch.cuda.reset_peak_memory_stats()
                work = makers[name](store=store, **options)
                seconds_of(work, sizes.device, WARM_UP + 1)
                times[label] = 1e3 * measure({label: work}, sizes.rounds, sizes.device)[label]
                base = eager if eager in times else label
                yield Row(label, times[label], "ms", base, times[base], times[base] / times[label])
                if sizes.device == "cuda":
                    yield Row(f"{label}/memory", torch.cuda.max_memory_allocated() / 1e9, "GB")
            except Exception as error:  # the next may fit into memory
                yield f"{label}: {line_of(error)}"
            work = None


def pace(sizes: Sizes) -> Rows:
    """Seconds of 100,000 training steps from those of fewer; the Decision Transformer's beside two libraries'."""
    with synthetic(sizes) as store:
        options: dict[str, Any] = {"store": store, "device": sizes.device, "batch_size": sizes.batches[0]}
        for name, work in (
            ("mingru", backbone_step("mingru", **options)),
            (PUBLISHED, published_step(dropout=0.1, precision="fp32", **options)),
        ):
            seconds_of(work, sizes.device, WARM_UP + 1)
            seconds, row = 1e5 * seconds_of(work, sizes.device, sizes.paced), f"pace/{name}/100,000 steps"
            yield Row(row, seconds, "s")
            if name == PUBLISHED:
                for library, theirs in LIBRARIES.items():
                    yield Row(row, seconds, "s", library, theirs, theirs / seconds)


def rollout(sizes: Sizes) -> Rows:
    """An evaluation on one core and on all."""
    rollout_bench.EPISODES = sizes.episodes
    yield from rollout_bench.bench(argparse.Namespace(agent="pretrained/hopper-medium", rounds=1))


def learning(sizes: Sizes) -> Rows:
    """Whether the loss falls; a score; and what it changes that a run is killed and resumed."""
    keys = {"batch_size": sizes.batches[0], "device": sizes.device}
    keys |= {"checkpoint_every": sizes.trained // 4, "log_every": sizes.trained // 20}
    with synthetic(sizes), tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder, "whole"), Path(folder, "killed")
        run = decision_rnn.train(sizes.dataset, steps=sizes.trained, output=whole, training=keys, progress=False)
        loss = run.metrics["loss"]
        yield Row("learning/loss", loss[-1], "", "learning/first loss", loss[0], loss[0] / loss[-1])
        yield Row("learning/100,000 steps, with logs", 1e5 / run.metrics["steps_per_second"][-1], "s")
        result = run.evaluate("auto", episodes=sizes.played, progress=False)
        yield Row("learning/score at auto", result.targets[0].score_mean, "")

        options = {"output": killed, "training.steps": sizes.trained, **{f"training.{key}": keys[key] for key in keys}}
        words = itertools.chain.from_iterable((f"--{key}", str(value)) for key, value in options.items())
        process = subprocess.Popen([*PROGRAM, "train", sizes.dataset, *words])
        while process.poll() is None and not checkpoints_of(killed):
            time.sleep(0.005)
        process.kill()
        process.wait()
        step = int(checkpoints_of(killed)[-1].name)
        resumed = decision_rnn.train(output=killed, resume=True, progress=False).metrics["loss"]
        difference = float(np.abs(resumed / loss - 1).max())
        yield Row("learning/largest difference of a loss after resumption", 100 * difference, "%")
        if step == sizes.trained or difference > 0.01 or loss[-1] > loss[0]:
            yield f"loss {loss[0]:.4f} to {loss[-1]:.4f}; killed at step {step:,}, it differs by {difference:.2%}"


@contextlib.contextmanager
def synthetic(sizes: Sizes) -> Iterator[decision_rnn.EpisodeStore]:
    """The temporary dataset `local/synthetic`: Hopper's sizes, and actions that are a function of observations."""
    generator = np.random.default_rng(0)
    weights = generator.normal(0, 0.5, (11, 3))

    def episode(length: int = 200) -> decision_rnn.Episode:
        observations = generator.normal(size=(length + 1, 11))
        actions, rewards = np.tanh(observations[:-1] @ weights), generator.normal(3, 1, length)
        return decision_rnn.Episode(observations, actions, rewards, True, False)

    with tempfile.TemporaryDirectory() as folder:
        os.environ["DECISION_RNN_DATA"] = folder
        yield decision_rnn.write_store("local/synthetic", (episode() for _ in range(sizes.episodes)), "Hopper-v5")


def line_of(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


PARTS: dict[str, Callable[[Sizes], Rows]] = {name: globals()[name] for name in SECONDS}


def run_part(name: str, sizes: Sizes, file: Path) -> None:
    """Run a part in this process; a line of JSON for each row and error."""
    torch.set_num_threads(1)
    with file.open("w", buffering=1) as lines:
        try:
            for item in PARTS[name](sizes):
                print(json.dumps({"error": item} if isinstance(item, str) else asdict(item)), file=lines)
        except Exception as error:
            traceback.print_exc()
            print(json.dumps({"error": line_of(error)}), file=lines)


def start_part(name: str, smoke: bool, file: Path) -> subprocess.Popen[bytes]:
    """Start a part in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", "PYTHONUNBUFFERED": "1"}
    environment |= {"OMP_NUM_THREADS": "1", **({"TRITON_INTERPRET": "1"} if smoke else {})}
    command = [sys.executable, __file__, name, "--rows", str(file), *["--smoke"] * smoke]
    return subprocess.Popen(command, env=environment, start_new_session=True)


def finish_part(name: str, process: subprocess.Popen[bytes], file: Path) -> dict[str, Any]:
    """Wait for a part, until its time limit; its seconds, rows and errors."""
    start, errors = time.perf_counter(), []
    try:
        if process.wait(SECONDS[name]):
            errors.append(f"exit status {process.returncode}")
    except subprocess.TimeoutExpired:
        errors.append(f"stopped after {SECONDS[name]} s")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that it started
        process.wait()
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    errors += [line["error"] for line in lines if "error" in line]
    rows = [line for line in lines if "error" not in line]
    return {"seconds": round(time.perf_counter() - start, 1), "errors": errors, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="parts to run")
    parser.add_argument("--smoke", action="store_true", help="run on the CPU with tiny sizes")
    parser.add_argument("--output", type=Path, default=RESULTS / "speed" / "gpu", help="a folder")
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)  # of one part, which runs in this process
    options = parser.parse_args()
    names = options.parts or [*PARTS]
    if unknown := set(names) - PARTS.keys():
        parser.error(f"no part is called {', '.join(unknown)}: they are {', '.join(PARTS)}")
    if options.rows:
        return run_part(names[0], SMOKE if options.smoke else Sizes(), options.rows)
    if not options.smoke and not torch.cuda.is_available():
        sys.exit("torch sees no CUDA device. --smoke runs every part on the CPU with tiny sizes.")
    parts: dict[str, dict[str, Any]] = {}
    sentence = provenance(seeds=[0], packages=["triton"] * bool(find_spec("triton")))
    with tempfile.TemporaryDirectory() as folder:
        # On the CPU all at once: their times mean nothing.
        for group in [names] if options.smoke else [[name] for name in names]:
            files = {name: Path(folder, f"{name}.jsonl") for name in group}
            processes = {name: start_part(name, options.smoke, file) for name, file in files.items()}
            parts |= {name: finish_part(name, process, files[name]) for name, process in processes.items()}
    text = table(["part", "s", "errors"], [[k, f"{p['seconds']}", "; ".join(p["errors"])] for k, p in parts.items()])
    text += "\n\n" + format_rows([Row(**row) for part in parts.values() for row in part["rows"]])
    print(text)
    write_report(options.output / "README.md", f"# Speed on a GPU\n\n{text}", sentence)
    (options.output / "gpu.json").write_text(json.dumps({"made": sentence, "parts": parts}, indent=1) + "\n")
    sys.exit(any(part["errors"] for part in parts.values()))


if __name__ == "__main__":
    main()
