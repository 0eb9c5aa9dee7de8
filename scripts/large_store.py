"""Makes results/large-store/: the cost of writing, opening and training from a store that may exceed memory.

    python scripts/large_store.py                 # about five minutes and 6 GB of disk in the temporary folder
    python scripts/large_store.py --steps 2000000 # to try it

Each stage is a separate process, so that its peak resident memory (VmHWM) is its own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SMALL, LARGE = "own/small", "own/large"  # a million steps, and `--steps`
MILLION = 1_000_000
TRAINING_STEPS = 200
ROUNDS = 60
MB = 1e6


def resident() -> dict[str, float]:
    """Resident memory of this process in MB: its peak (VmHWM), and its current anonymous and file-backed pages."""
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {line[0][:-1]: int(line[1]) * 1024 / MB for line in lines if line[0] in ("VmHWM:", "RssAnon:", "RssFile:")}


class Peaks(threading.Thread):
    """Peaks of anonymous and file-backed memory, sampled every 10 ms: the kernel keeps only the peak of the sum."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peaks = resident()
        self.begun = dict(self.peaks)

    def run(self) -> None:
        while True:
            for key, value in resident().items():
                self.peaks[key] = max(self.peaks[key], value)
            time.sleep(0.01)


def episodes(steps: int) -> Iterator[Any]:
    """Noise in Hopper's sizes: episodes of 1 to 1000 steps, `steps` in total."""
    from decision_rnn import Episode

    generator = np.random.default_rng(0)
    while steps > 0:
        length = min(steps, int(generator.integers(1, 1001)))
        yield Episode(
            generator.standard_normal((length + 1, 11), np.float32),
            generator.uniform(-1, 1, (length, 3)).astype(np.float32),
            generator.uniform(0, 6, length),
            terminated=length < 1000,
            truncated=length == 1000,
        )
        steps -= length


def seconds_of(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return round(time.perf_counter() - begun, 4)


def write(steps: int) -> dict[str, Any]:
    """Write both stores with the package's own writer."""
    from decision_rnn import write_store

    generating = seconds_of(lambda: sum(len(episode.rewards) for episode in episodes(steps)))
    peaks = Peaks()
    peaks.start()
    large = seconds_of(lambda: write_store(LARGE, episodes(steps), "Hopper-v5"))
    small = seconds_of(lambda: write_store(SMALL, episodes(MILLION), "Hopper-v5"))
    return {"seconds": large, "seconds_small": small, "generating": generating, "peaks": peaks.peaks}


def convert(steps: int) -> dict[str, Any]:
    """Convert a million steps from D4RL's layout, like a user's file."""
    from decision_rnn import open_dataset
    from decision_rnn.data.formats.d4rl import write_file

    file = Path(os.environ["DECISION_RNN_DATA"]) / "small.hdf5"
    write_file(file, open_dataset(SMALL).open())
    return {"seconds": seconds_of(lambda: open_dataset("d4rl/hopper-medium-v2", path=file).open(progress=False))}


def open_again(steps: int) -> dict[str, Any]:
    """Verify the whole large store, then open both stores repeatedly."""
    from decision_rnn import open_dataset

    peaks = Peaks()
    peaks.start()
    verifying = seconds_of(open_dataset(LARGE).open().verify)
    datasets = {name: open_dataset(name) for name in (SMALL, LARGE)}
    again = {name: [seconds_of(dataset.open) for _ in range(21)] for name, dataset in datasets.items()}
    medians = {name: sorted(seconds[1:])[10] for name, seconds in again.items()}
    return {"verifying": verifying, "again": medians[LARGE], "again_small": medians[SMALL], "peaks": peaks.peaks}


def train(steps: int) -> dict[str, Any]:
    """`decision-rnn train own/large`, without the evaluation at the end."""
    from decision_rnn.cli.arguments import parse_run
    from decision_rnn.training.loop import train

    config = parse_run("large_store", [LARGE, "--training.steps", str(TRAINING_STEPS)])[0]
    peaks = Peaks()
    peaks.start()
    seconds = seconds_of(lambda: train(config, Path(os.environ["DECISION_RNN_DATA"]) / "run"))
    return {"seconds": seconds, "begun": peaks.begun, "peaks": peaks.peaks}


def sample(steps: int) -> dict[str, Any]:
    """Sample enough batches to read each part of the large store about once, as long training does."""
    from decision_rnn import open_dataset
    from decision_rnn.data.stream import StepStream

    peaks = Peaks()
    peaks.start()
    size = {"batch_size": 64, "context": 20}
    stream = StepStream(open_dataset(LARGE).open(), **size, seed=0)
    batches = steps // (size["batch_size"] * size["context"])
    seconds = seconds_of(lambda: [stream.sample() and None for _ in range(batches)])
    return {**size, "batches": batches, "microseconds": 1e6 * seconds / batches, "peaks": peaks.peaks}


def step(steps: int) -> dict[str, Any]:
    """Time one training step and one batch on each store, in turn: medians of wall time."""
    from decision_rnn import open_dataset
    from decision_rnn.cli.arguments import parse_run
    from decision_rnn.training.prepare import prepare

    names = (SMALL, LARGE)
    configs = {name: parse_run("large_store", [name])[0] for name in names}
    prepared = {name: prepare(configs[name], open_dataset(name).open(), 1000.0) for name in names}
    taken: dict[str, list[float]] = {f"{kind} {name}": [] for kind in ("step", "batch") for name in names}
    for _ in range(10 + ROUNDS):
        for name, (_, trainer, stream) in prepared.items():
            taken[f"step {name}"].append(seconds_of(lambda t=trainer, s=stream: t.step(s.sample())))
            begun = time.perf_counter()
            for _ in range(50):
                stream.sample()
            taken[f"batch {name}"].append((time.perf_counter() - begun) / 50)
    training = configs[LARGE].training
    batch = {"batch_size": training.batch_size, "context": training.context}
    return {name: float(np.median(seconds[10:])) for name, seconds in taken.items()} | batch


STAGES = {
    "write": write,
    "convert": convert,
    "open": open_again,
    "train": train,
    "sample": sample,
    "step": step,
}


def report(steps: int, measured: dict[str, Any], size: int) -> str:
    """The README of results/large-store."""

    def memory(stage: str) -> str:
        peaks = measured[stage]["peaks"]
        return f"{peaks['VmHWM']:.0f} MB | {peaks['RssAnon']:.0f} MB | {peaks['RssFile']:.0f} MB |"

    wrote, opened, trained, sampled, stepped = (measured[s] for s in ("write", "open", "train", "sample", "step"))
    rows = [
        f"| writing {steps:,} steps | {wrote['seconds']:.0f} s, {wrote['generating']:.0f} of them making the noise | "
        + memory("write"),
        f"| hashing every byte of it, as when it is first opened | {opened['verifying']:.1f} s | | | |",
        f"| opening it again | {1e3 * opened['again']:.1f} ms | " + memory("open"),
        f"| training {TRAINING_STEPS} steps, from opening to the last checkpoint | {trained['seconds']:.0f} s | "
        + memory("train"),
        f"| drawing {sampled['batches']:,} batches of {sampled['batch_size']} x {sampled['context']}, {steps:,} steps "
        f"in all | {sampled['microseconds']:.0f} µs each | " + memory("sample"),
        f"| opening the store of {MILLION:,} steps again | {1e3 * opened['again_small']:.1f} ms | | | |",
        f"| converting {MILLION:,} steps from D4RL's layout | {measured['convert']['seconds']:.1f} s | | | |",
    ]
    return (
        "# A store larger than memory may hold\n\n"
        f"{steps:,} steps of noise in Hopper's sizes, {size / 1e9:.2f} GB; each stage in a process of its own. "
        "The kernel's own peak of resident memory is VmHWM; of anonymous pages, which a process really needs, and of "
        "file-backed ones, which are shared with the page cache and given back under pressure (the libraries' "
        f"{trained['begun']['RssFile']:.0f} MB among them before anything is opened), the peaks were looked for "
        "every 10 ms, and need not be at the same time.\n\n"
        "| | time | VmHWM | anonymous | file-backed |\n| --- | --- | --- | --- | --- |\n" + "\n".join(rows) + "\n\n"
        f"| medians of {ROUNDS}, in turn | {MILLION:,} steps | {steps:,} steps |\n| --- | --- | --- |\n"
        f"| a training step of the defaults | {1e3 * stepped[f'step {SMALL}']:.1f} ms | "
        f"{1e3 * stepped[f'step {LARGE}']:.1f} ms |\n"
        f"| a batch of {stepped['batch_size']} x {stepped['context']} | {1e6 * stepped[f'batch {SMALL}']:.0f} µs | "
        f"{1e6 * stepped[f'batch {LARGE}']:.0f} µs |\n\n"
        "Wall time, on one thread, beside other work on the machine. The page cache held both stores: from a disk, "
        f"a batch takes {stepped['batch_size']} scattered reads. A table of up to 0.5 GB is mapped; from a larger one "
        "slices are read."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50_000_000, help="of the large store")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        print(json.dumps(STAGES[options.stage](options.steps)))
        return
    from results_folder import RESULTS, Made, write_report  # here: keep its imports out of a stage's memory

    made = Made.here(seeds=[0])
    measured = {}
    with tempfile.TemporaryDirectory(prefix="decision_rnn-large-") as folder:
        places = {"DECISION_RNN_DATA": folder, "DECISION_RNN_CACHE": f"{folder}/cache", "OMP_NUM_THREADS": "1"}
        for stage in STAGES:
            if stage == "open":
                time.sleep(3)  # files are hashed at every use until they are two seconds old
            command = [sys.executable, __file__, "--steps", str(options.steps), "--stage", stage]
            done = subprocess.run(command, env=os.environ | places, stdout=subprocess.PIPE, text=True, check=True)
            measured[stage] = json.loads(done.stdout.splitlines()[-1])
            print(stage, measured[stage], file=sys.stderr)
        size = sum(file.stat().st_size for file in Path(folder, LARGE).iterdir())
    write_report(RESULTS / "large-store" / "README.md", report(options.steps, measured, size), made)


if __name__ == "__main__":
    main()
