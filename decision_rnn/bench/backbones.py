"""The cost of one layer, by sequence length in training and by the number of steps already taken in acting.

After Feng et al., "Were RNNs All We Needed?" (2024), figure 1: time and memory of training over the length at a fixed
batch size, for all layers in one run. Also the cost of one recurrent step after 1 to 100,000 steps of the same episode,
which is constant if memory is.
"""

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from tqdm import tqdm

from decision_rnn.backbones import Resets, SequenceMixer, registered_names
from decision_rnn.bench.layers import Layer, installed_peers, make_layer, mingru_core, peer_mingru_core
from decision_rnn.bench.measure import Row, check_rounds, compare, interleaved, timed
from decision_rnn.bench.memory import peak_memory
from decision_rnn.errors import InputError
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.files import check_destination
from decision_rnn.machine import keep_freed_memory

BATCH, WIDTH = 8, 128
BASELINE = "torch.nn.GRU"
CORE_SIZES = ((64, 20), (64, 60), (16, 1000))
CORES = ("mingru", "minGRU_pytorch.minGRU")
SECONDS, BYTES = 10.0, 4 * 2**30
"""A layer is not run at lengths for which its costs at shorter ones predict more than this, nor at longer ones."""
TIMING_SECONDS = 0.05
"""Work that takes less than this is repeated for about this long."""
STEP_CALLS = 200
RESETS = (64, 20, 22)
"""Batch size, length, and steps per episode, as in D4RL's hopper-random."""


def bench_backbones(
    backbones: str | None = None,
    lengths: str = "20,60,250,1000,4096",
    steps: int = 100_000,
    rounds: int = 5,
    device: Literal["cpu", "cuda"] = "cpu",
    plot: Path | None = None,
) -> list[Row]:
    """Measure every layer's forward and backward pass, its peak memory and one recurrent step.

    Width 128, fp32, on one thread; a layer is the mixer alone, without the stack's norms and MLP. Passes have a fixed
    batch size of 8, after figure 1 of "Were RNNs All We Needed?", and compute the gradients of the parameters and of
    the input; steps have a batch size of 1. Takes about six minutes on an idle core.

    A layer whose cost at shorter lengths predicts more than 10 seconds or 4 GiB for a pass is left out at that length
    and at longer ones, which is reported on stderr.

    Args:
        backbones: Comma-separated names of registered mixers and of layers of other packages; if left out, all that
            are installed. torch.nn.GRU is always included as the baseline.
        lengths: Comma-separated sequence lengths.
        steps: The last number of steps after which one more is timed; the earlier ones are 1, 10, 100 and so on.
        rounds: Number of timings of each.
        device: `cpu`, or `cuda` for wall time there.
        plot: PNG file for plots of time, speed and memory over length, and of the cost of a step over elapsed steps.

    Returns:
        Rows `backbones/<name>/time-<length>` in ms and `backbones/<name>/memory-<length>` in MB, ratio: torch.nn.GRU's
        value over the row's; `backbones/<name>/step-<elapsed>` in µs, ratio: the cost after the fewest steps over the
        row's; for our mixers `backbones/<name>/episodes-22` in ms, a pass over 64 rows of 20 steps in which an episode
        begins every 22 steps, ratio: the time of the same pass without resets, `episodes-endless`, over the row's. If
        minGRU-pytorch is installed, also `backbones/<name>/core-<batch>x<length>` in ms for minGRU's gates, g and
        recurrence alone, from pre-activations, ratio: minGRU-pytorch's time over the row's.

    Raises:
        InputError: If a name is unknown or a number cannot be used.
    """
    check_rounds(rounds)
    if plot:
        check_destination(plot)
    names, sizes, stops = _names(backbones), _lengths(lengths), _stops(steps)
    torch.manual_seed(0)
    keep_freed_memory()  # as in training
    with one_thread():
        layers = {name: make_layer(name, WIDTH, device) for name in names}
        rows = measure_passes(layers, sizes, rounds, device)
        rows += measure_steps(layers, stops, rounds, device)
        rows += measure_resets(layers, rounds, device)
        if set(CORES) <= set(names):
            rows += measure_cores(rounds, device)
    if plot:
        from decision_rnn.plots import plot_backbones  # importing matplotlib takes a second

        plot_backbones(rows, plot)
    return rows


def measure_passes(layers: dict[str, Layer], lengths: Sequence[int], rounds: int, device: Any) -> list[Row]:
    """Rows for time and memory of a forward and backward pass, by length; `layers` must contain the baseline."""
    inputs = {length: _input(BATCH, length, WIDTH, WIDTH, device) for length in lengths}
    memory: dict[int, dict[str, float]] = {}
    timings: dict[int, dict[str, Callable[[], float]]] = {}
    with tqdm(total=len(lengths) * len(layers), desc="measuring memory", unit="pass", disable=None) as bar:
        for name, layer in layers.items():
            parameters = list(layer.module.parameters())
            history: list[tuple[int, float, float]] = []
            for length in lengths:
                bar.update()
                reason = name != BASELINE and too_much(history, length)
                if reason:
                    tqdm.write(f"{name} is left out from length {length} on: {reason}", file=sys.stderr)
                    break
                work = _training_pass(layer.forward, parameters, *inputs[length])
                seconds = timed(work, device=device)()
                peak = peak_memory(work, device)
                history.append((length, seconds, peak))
                memory.setdefault(length, {})[name] = peak / 1e6
                calls = max(1, round(TIMING_SECONDS / max(seconds, 1e-6)))
                timings.setdefault(length, {})[name] = timed(work, calls, device)
    rows = []
    for length, candidates in timings.items():
        # Long passes are already warmed up by the first timing and the memory measurement.
        medians = interleaved(candidates, rounds, warmup=int(length < 1000), description=f"timing length {length}")
        milliseconds = {_name(name, "time", length): 1e3 * value for name, value in medians.items()}
        rows += compare(milliseconds, _name(BASELINE, "time", length), "ms")
    for length, peaks in memory.items():
        megabytes = {_name(name, "memory", length): peak for name, peak in peaks.items()}
        rows += compare(megabytes, _name(BASELINE, "memory", length), "MB")
    return rows


def too_much(history: Sequence[tuple[int, float, float]], length: int) -> str | None:
    """Why a length should be left out, given (length, seconds, bytes) of shorter ones; None if it may be run.

    Time and memory are extrapolated from the last two lengths, with at least linear growth.
    """
    for unit, bound, scale, column in (("seconds", SECONDS, 1, 1), ("GiB", BYTES, 2**30, 2)):
        sizes = [(done[0], max(done[column], 1e-9)) for done in history[-2:]]
        if not sizes:
            return None
        (before, less), (last, more) = sizes[0], sizes[-1]
        power = max(1.0, math.log(more / less) / math.log(last / before)) if last > before else 1.0
        foretold = more * (length / last) ** power
        if foretold > bound:
            return f"it would take about {foretold / scale:.2g} {unit}, more than {bound / scale:.2g}"
    return None


def measure_steps(layers: dict[str, Layer], stops: Sequence[int], rounds: int, device: Any) -> list[Row]:
    """Rows for one recurrent step after each of the numbers of steps in `stops`, ascending, with noise as input."""
    noise = torch.randn(64, 1, WIDTH, device=device)
    timings = {}
    with torch.inference_mode():
        with tqdm(total=stops[-1] * len(layers), desc="stepping", unit="step", disable=None) as bar:
            for name, layer in layers.items():
                state = layer.initial_state()
                for elapsed in range(1, stops[-1] + 1):
                    _, state = layer.step(noise[elapsed % len(noise)], state)
                    if elapsed in stops:
                        timings[_name(name, "step", elapsed)] = timed(_step(layer, noise[0], state), STEP_CALLS, device)
                bar.update(stops[-1])
        seconds = interleaved(timings, rounds, warmup=1, description="timing steps")
    rows = []
    for name in layers:
        values = {_name(name, "step", elapsed): 1e6 * seconds[_name(name, "step", elapsed)] for elapsed in stops}
        rows += compare(values, _name(name, "step", stops[0]), "µs")
    return rows


def measure_resets(layers: dict[str, Layer], rounds: int, device: Any) -> list[Row]:
    """Rows for a pass over short episodes, for every layer with resets, compared with a pass without resets."""
    batch, length, episode = RESETS
    x, gradient = _input(batch, length, WIDTH, WIDTH, device)
    # Rows begin at different steps of an episode, as random slices do.
    row, t = torch.arange(batch, device=device)[:, None], torch.arange(length, device=device)
    short = (row + t) % episode == 0
    rows = []
    for name, layer in layers.items():
        if isinstance(layer.module, SequenceMixer):
            timings = {}
            for kind, reset in (("endless", torch.zeros_like(short)), (episode, short)):
                forward = partial(_forward, layer.module, Resets.from_mask(reset))
                work = _training_pass(forward, list(layer.module.parameters()), x, gradient)
                calls = max(1, round(TIMING_SECONDS / timed(work, device=device)()))
                timings[_name(name, "episodes", kind)] = timed(work, calls, device)
            seconds = interleaved(timings, rounds, warmup=1, description=f"timing {name}'s resets")
            milliseconds = {key: 1e3 * value for key, value in seconds.items()}
            rows += compare(milliseconds, _name(name, "episodes", "endless"), "ms")
    return rows


def _forward(mixer: SequenceMixer, reset: Resets, x: Tensor) -> Tensor:
    return mixer(x, None, reset)[0]


def measure_cores(rounds: int, device: Any) -> list[Row]:
    """Rows for the core of minGRU, ours and minGRU-pytorch's."""
    rows = []
    cores = dict(zip(CORES, (mingru_core(WIDTH, device), peer_mingru_core(WIDTH, device)), strict=True))
    for batch, length in CORE_SIZES:
        timings = {}
        x, gradient = _input(batch, length, 2 * WIDTH, WIDTH, device)
        for name, core in cores.items():
            work = _training_pass(core, [], x, gradient)
            calls = max(1, round(TIMING_SECONDS / timed(work, 3, device)()))
            timings[f"backbones/{name}/core-{batch}x{length}"] = timed(work, calls, device)
        seconds = interleaved(timings, rounds, warmup=1, description="timing minGRU's core")
        rows += compare({name: 1e3 * value for name, value in seconds.items()}, list(timings)[1], "ms")
    return rows


def _input(batch: int, length: int, width: int, output_width: int, device: Any) -> tuple[Tensor, Tensor]:
    """An input that requires a gradient, and a gradient of the output."""
    x = torch.randn(batch, length, width, device=device, requires_grad=True)
    return x, torch.randn(batch, length, output_width, device=device)


def _training_pass(
    forward: Callable[[Tensor], Tensor], parameters: Sequence[Tensor], x: Tensor, gradient: Tensor
) -> Callable[[], None]:
    def work() -> None:
        torch.autograd.grad(forward(x), [x, *parameters], gradient, allow_unused=True)

    return work


def _step(layer: Layer, x: Tensor, state: Any) -> Callable[[], None]:
    """Repeats the same step; the new state is discarded."""

    def work() -> None:
        layer.step(x, state)

    return work


def _name(layer: str, kind: str, at: int | str) -> str:
    return f"backbones/{layer}/{kind}-{at}"


def _names(backbones: str | None) -> list[str]:
    if backbones is None:
        return [*registered_names(), *installed_peers()]
    names = [name.strip() for name in backbones.split(",")]
    return list(dict.fromkeys([*names, BASELINE]))


def _lengths(lengths: str) -> list[int]:
    try:
        numbers = sorted({int(length) for length in lengths.split(",")})
    except ValueError:
        numbers = [0]
    if numbers[0] < 2:
        raise InputError(f"lengths is {lengths!r}: it must be whole numbers above 1, such as 20,1000")
    return numbers


def _stops(steps: int) -> list[int]:
    if steps < 1:
        raise InputError(f"steps is {steps}: it must be at least 1")
    return [10**i for i in range(len(str(steps))) if 10**i < steps] + [steps]
