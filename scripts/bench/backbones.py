"""The cost of one layer, by sequence length in training and by the number of steps already taken in acting.

After Feng et al., "Were RNNs All We Needed?" (2024), figure 1: time and memory of training over the length at a fixed
batch size, for all layers in one run. Also the cost of one recurrent step after 1 to 100,000 steps of the same episode,
which is constant if memory is.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from bench.measure import Row, compare, measure, peak_memory, seconds_of
from decision_rnn.backbones import registered, registered_names
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import check_destination
from decision_rnn.utils.messages import bar, warn
from decision_rnn.utils.parsing import PositiveInt

BATCH, WIDTH = 8, 128
BASELINE = "torch.nn.GRU"
TORCH = {BASELINE: nn.GRU, "torch.nn.LSTM": nn.LSTM}
SECONDS, BYTES = 2.0, 2**30
"""A layer whose pass takes more than this is not run at longer lengths."""


class TorchLayer(nn.Module):
    """torch's GRU or LSTM with the methods of a mixer that the measurements use."""

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
    steps: PositiveInt = 100_000,
    rounds: PositiveInt = 5,
    device: Literal["cpu", "cuda"] = "cpu",
    plot: Path | None = None,
) -> list[Row]:
    """Measure every layer's forward and backward pass, its peak memory and one recurrent step.

    Width 128, fp32, on one thread; a layer is the mixer alone, without the stack's norms and MLP. Passes have a fixed
    batch size of 8, after figure 1 of "Were RNNs All We Needed?", and compute the gradients of the parameters and of
    the input; steps have a batch size of 1. Takes about six minutes on an idle core.

    A layer whose pass takes more than 2 seconds or 1 GiB is left out at longer lengths, which is reported on stderr.

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
        row's.

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
    if plot:
        check_destination(plot)
    torch.manual_seed(0)
    layers = {name: make_layer(name) for name in [*names, BASELINE]}
    rows = measure_layers(layers, sizes, steps, rounds, device)
    if plot:
        from bench.plots import plot_backbones  # importing matplotlib takes a second

        plot_backbones(rows, plot)
    return rows


def make_layer(name: str) -> Any:
    """A layer by name: a registered mixer with its defaults, or torch's GRU or LSTM; InputError for another name."""
    if name in TORCH:
        return TorchLayer(TORCH[name])
    registration = registered(name)
    return registration.cls(registration.config(name=name, width=WIDTH))


def measure_layers(
    layers: Mapping[str, Any], lengths: Sequence[int], steps: int, rounds: int, device: Any = "cpu"
) -> list[Row]:
    """The rows of `bench_backbones` for any layers by name.

    Args:
        layers: Modules of width 128; `forward` returns the output and a state, `initial_state` and `step` are as in
            `SequenceMixer`. The baseline must be among them.
        lengths: Sequence lengths, ascending.
        steps: The last number of steps after which one more is timed.
        rounds: Number of timings of each.
        device: `cpu` or `cuda`.
    """
    layers = {name: layer.to(device) for name, layer in layers.items()}
    with one_thread():
        return _measure_passes(layers, lengths, rounds, device) + _measure_steps(layers, steps, rounds, device)


def _measure_passes(layers: Mapping[str, Any], lengths: Sequence[int], rounds: int, device: Any) -> list[Row]:
    """Rows for time and memory of a forward and backward pass, by length."""
    passes: dict[int, dict[str, Callable[[], object]]] = {length: {} for length in lengths}
    memory: dict[int, dict[str, float]] = {length: {} for length in lengths}
    with bar(total=len(lengths) * len(layers), desc="measuring memory", unit="pass") as shown:
        for name, layer in layers.items():
            for i, length in enumerate(lengths):
                work = _training_pass(layer, length, device)
                seconds, peak = seconds_of(work, device), peak_memory(work, device)
                passes[length][f"backbones/{name}/time-{length}"] = work
                memory[length][f"backbones/{name}/memory-{length}"] = peak
                shown.update()
                if (seconds > SECONDS or peak > BYTES) and name != BASELINE and length != lengths[-1]:
                    warn(
                        f"{name} is left out from length {lengths[i + 1]} on: at length {length} it takes "
                        f"{seconds:.2g} seconds and {peak / 2**30:.2g} GiB"
                    )
                    break
    rows = []
    for length, works in passes.items():
        seconds_by_name = measure(works, rounds, f"timing length {length}", device)
        rows += compare(seconds_by_name, f"backbones/{BASELINE}/time-{length}", "ms", 1e3)
    for length, peaks in memory.items():
        rows += compare(peaks, f"backbones/{BASELINE}/memory-{length}", "MB", 1e-6)
    return rows


def _measure_steps(layers: Mapping[str, Any], steps: int, rounds: int, device: Any) -> list[Row]:
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


def _training_pass(layer: nn.Module, length: int, device: Any) -> Callable[[], object]:
    """A forward and backward pass on noise, with the gradients of the input and of the parameters."""
    x = torch.randn(BATCH, length, WIDTH, device=device, requires_grad=True)
    gradient, inputs = torch.randn_like(x), [x, *layer.parameters()]
    return lambda: torch.autograd.grad(layer(x)[0], inputs, gradient, allow_unused=True)
