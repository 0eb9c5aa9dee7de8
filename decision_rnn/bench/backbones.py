"""The cost of one layer, by sequence length in training and by the number of steps already taken in acting.

After Feng et al., "Were RNNs All We Needed?" (2024), figure 1: time and memory of training over the length at a fixed
batch size, for all layers in one run. Also the cost of one recurrent step after 1 to 100,000 steps of the same episode,
which is constant if memory is.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from decision_rnn.backbones import Resets, SequenceMixer, registered_names
from decision_rnn.bench.measure import Row, compare, measure, seconds_of
from decision_rnn.bench.memory import peak_memory
from decision_rnn.config_parser import chosen
from decision_rnn.errors import InputError
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.files import check_destination
from decision_rnn.machine import keep_freed_memory
from decision_rnn.messages import bar, warn

BATCH, WIDTH = 8, 128
BASELINE = "torch.nn.GRU"
TORCH = {BASELINE: nn.GRU, "torch.nn.LSTM": nn.LSTM}
SECONDS, BYTES = 10.0, 4 * 2**30
"""A layer is not run at lengths for which its costs at shorter ones predict more than this, nor at longer ones."""
SLICES = (64, 20)
"""Batch size and length of the passes over episodes."""
EPISODES = (470, 22)
"""Steps per episode in such passes, as in D4RL's hopper-medium and hopper-random."""


class TorchLayer(nn.Module):
    """torch's GRU or LSTM with the methods of a mixer that the measurements use; without resets."""

    def __init__(self, recurrence: type[nn.GRU] | type[nn.LSTM]) -> None:
        super().__init__()
        self.recurrence = recurrence(WIDTH, WIDTH, batch_first=True)

    def initial_state(self, batch_size: int) -> None:
        return None

    def forward(self, x: Tensor) -> Any:
        return self.recurrence(x)

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        y, state = self.recurrence(x[:, None], state)
        return y[:, 0], state


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
        backbones: Comma-separated names of registered mixers, torch.nn.GRU and torch.nn.LSTM; if left out, all of them.
            torch.nn.GRU is always included as the baseline.
        lengths: Comma-separated sequence lengths.
        steps: The last number of steps after which one more is timed; the earlier ones are 1, 10, 100 and so on.
        rounds: Number of timings of each.
        device: `cpu`, or `cuda` for wall time there.
        plot: PNG file for plots of time, speed and memory over length, and of the cost of a step over elapsed steps.

    Returns:
        Rows `backbones/<name>/time-<length>` in ms and `backbones/<name>/memory-<length>` in MB, ratio: torch.nn.GRU's
        value over the row's; `backbones/<name>/step-<elapsed>` in µs, ratio: the cost after the fewest steps over the
        row's; for our mixers `backbones/<name>/episodes-470` and `-22` in ms, a pass over 64 rows of 20 steps in which
        an episode begins every 470 or 22 steps, ratio: the time of the same pass without resets, `episodes-endless`,
        over the row's.

    Raises:
        InputError: If a name is unknown or a number cannot be used.
    """
    names = [*registered_names(), *TORCH] if backbones is None else [name.strip() for name in backbones.split(",")]
    try:
        sizes = sorted({int(length) for length in lengths.split(",")})
    except ValueError:
        sizes = [0]
    if sizes[0] < 2:
        raise InputError(f"lengths is {lengths!r}: it must be whole numbers above 1, such as 20,1000")
    if steps < 1:
        raise InputError(f"steps is {steps}: it must be at least 1")
    if plot:
        check_destination(plot)
    torch.manual_seed(0)
    layers = {name: make_layer(name) for name in [*names, BASELINE]}
    rows = measure_layers(layers, sizes, steps, rounds, device)
    if plot:
        from decision_rnn.plots import plot_backbones  # importing matplotlib takes a second

        plot_backbones(rows, plot)
    return rows


def make_layer(name: str) -> Any:
    """A layer by name: a registered mixer with its defaults, or torch's GRU or LSTM; InputError for another name."""
    if name in TORCH:
        return TorchLayer(TORCH[name])
    registration = chosen("backbone", name)
    return registration.cls(registration.config(name=name, width=WIDTH))


def measure_layers(
    layers: Mapping[str, Any], lengths: Sequence[int], steps: int, rounds: int, device: Any = "cpu"
) -> list[Row]:
    """The rows of `bench_backbones` for any layers by name.

    Args:
        layers: Modules of width 128; `forward` returns the output and a state, `initial_state` and `step` are as in
            `SequenceMixer`. Those that are a `SequenceMixer` take resets. The baseline must be among them.
        lengths: Sequence lengths, ascending.
        steps: The last number of steps after which one more is timed.
        rounds: Number of timings of each.
        device: `cpu` or `cuda`.
    """
    layers = {name: layer.to(device) for name, layer in layers.items()}
    keep_freed_memory()  # as in training
    with one_thread():
        rows = measure_passes(layers, lengths, rounds, device)
        rows += measure_steps(layers, steps, rounds, device)
        rows += measure_resets(layers, rounds, device)
    return rows


def measure_passes(layers: Mapping[str, Any], lengths: Sequence[int], rounds: int, device: Any) -> list[Row]:
    """Rows for time and memory of a forward and backward pass, by length."""
    passes: dict[int, dict[str, Callable[[], object]]] = {length: {} for length in lengths}
    memory: dict[int, dict[str, float]] = {length: {} for length in lengths}
    with bar(total=len(lengths) * len(layers), desc="measuring memory", unit="pass") as shown:
        for name, layer in layers.items():
            history: list[tuple[int, float, float]] = []
            for length in lengths:
                shown.update()
                reason = name != BASELINE and too_much(history, length)
                if reason:
                    warn(f"{name} is left out from length {length} on: {reason}")
                    break
                work = training_pass(layer, BATCH, length, device)
                seconds, peak = seconds_of(work, device), peak_memory(work, device)
                history.append((length, seconds, peak))
                passes[length][f"backbones/{name}/time-{length}"] = work
                memory[length][f"backbones/{name}/memory-{length}"] = peak
    rows = []
    for length, works in passes.items():
        seconds_by_name = measure(works, rounds, f"timing length {length}", device)
        rows += compare(seconds_by_name, f"backbones/{BASELINE}/time-{length}", "ms", 1e3)
    for length, peaks in memory.items():
        rows += compare(peaks, f"backbones/{BASELINE}/memory-{length}", "MB", 1e-6)
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
        predicted = more * (length / last) ** power
        if predicted > bound:
            return f"it would take about {predicted / scale:.2g} {unit}, more than {bound / scale:.2g}"
    return None


def measure_steps(layers: Mapping[str, Any], steps: int, rounds: int, device: Any) -> list[Row]:
    """Rows for one recurrent step after 1, 10, 100 and so on up to `steps` steps, with noise as input."""
    stops = [10**i for i in range(len(str(steps))) if 10**i < steps] + [steps]
    noise, works = torch.randn(64, 1, WIDTH, device=device), {}
    with torch.inference_mode():
        with bar(total=steps * len(layers), desc="stepping", unit="step") as shown:
            for name, layer in layers.items():
                state = layer.initial_state(1)
                for elapsed in range(1, steps + 1):
                    _, state = layer.step(noise[elapsed % len(noise)], state)
                    if elapsed in stops:
                        works[name, elapsed] = partial(layer.step, noise[0], state)
                shown.update(steps)
        named = {f"backbones/{name}/step-{elapsed}": work for (name, elapsed), work in works.items()}
        seconds = measure(named, rounds, "timing steps", device)
    rows = []
    for name in layers:
        of_layer = {key: value for key, value in seconds.items() if key.startswith(f"backbones/{name}/")}
        rows += compare(of_layer, f"backbones/{name}/step-{stops[0]}", "µs", 1e6)
    return rows


def measure_resets(layers: Mapping[str, Any], rounds: int, device: Any) -> list[Row]:
    """Rows for a pass over episodes, for every layer that takes resets, compared with a pass without resets."""
    batch, length = SLICES
    # A row begins one step later in its episode than the row above it ends, so that resets are at all positions.
    step = torch.arange(batch, device=device)[:, None] * (length + 1) + torch.arange(length, device=device)
    resets = {"endless": Resets.from_mask(torch.zeros_like(step, dtype=torch.bool))}
    resets |= {str(episode): Resets.from_mask(step % episode == 0) for episode in EPISODES}
    rows = []
    for name, layer in layers.items():
        if isinstance(layer, SequenceMixer):
            works = {
                f"backbones/{name}/episodes-{kind}": training_pass(layer, batch, length, device, (None, of_kind))
                for kind, of_kind in resets.items()
            }
            seconds = measure(works, rounds, f"timing {name} with resets", device)
            rows += compare(seconds, f"backbones/{name}/episodes-endless", "ms", 1e3)
    return rows


def training_pass(
    layer: nn.Module, batch: int, length: int, device: Any, arguments: tuple[Any, ...] = ()
) -> Callable[[], object]:
    """A forward and backward pass on noise, with the gradients of the input and of the parameters."""
    x = torch.randn(batch, length, WIDTH, device=device, requires_grad=True)
    gradient, inputs = torch.randn(batch, length, WIDTH, device=device), [x, *layer.parameters()]
    return lambda: torch.autograd.grad(layer(x, *arguments)[0], inputs, gradient, allow_unused=True)
