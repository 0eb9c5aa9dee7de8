"""Makes results/half-lives/: how far back every backbone remembers at the start of training.

    python scripts/half_lives.py

Of a new layer, and of a stack of three, the gradient of the last output with respect to every input: its norm over
channels and random directions of the output, at each number of steps ago. No constant of an initialisation is read.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from results_folder import RESULTS, Made, write_report
from torch import Tensor

from decision_rnn.backbones import Backbone, BackboneConfig, FadingConfig, SequenceMixer, registered, registered_names

TIME = 2048
DIRECTIONS = 4
DISTANCES = (1, 10, 100, 1000)
SEED = 0


def response(mixer: SequenceMixer, width: int) -> np.ndarray:
    """The gradient's norm, (TIME,), from the last step back, of inputs that are white noise."""
    noise = torch.Generator().manual_seed(SEED)
    x = torch.randn(DIRECTIONS, TIME, width, generator=noise).requires_grad_()
    y: Tensor = mixer(x)[0][:, -1]
    (gradient,) = torch.autograd.grad(y, x, torch.randn(y.shape, generator=noise))
    return gradient.flip(1).square().sum((0, 2)).sqrt().double().numpy()


def middle(found: np.ndarray) -> str:
    """The steps ago within which half of the response to earlier inputs lies."""
    summed = found[1:].cumsum()
    return f"{1 + int(np.searchsorted(summed, summed[-1] / 2)):,}" if summed[-1] > 0 else "none"


def row(config: BackboneConfig) -> tuple[list[str], np.ndarray]:
    """A line of the table, and the layer's response."""
    torch.manual_seed(SEED)
    layer = response(registered(config.name).cls(config), config.width)
    stack = response(Backbone(config), config.width)
    memory = f"{config.memory:,g}" if isinstance(config, FadingConfig) else ""
    left = [f"{layer[k] / layer[1]:.2g}" if layer[1] > 0 else "0" for k in DISTANCES[1:]]
    return [config.name, memory, *left, middle(layer), middle(stack)], layer


def draw(curves: dict[str, np.ndarray]) -> None:
    """Plot the layers' responses against the number of steps ago."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for place, (name, found) in enumerate(curves.items()):
        if found[1] > 0:
            axes.loglog(np.arange(1, TIME), found[1:] / found[1], label=name, linestyle=("-", "--", ":")[place // 10])
    axes.set(xlabel="steps ago", ylabel="gradient of the output, relative to one step ago", ylim=(1e-4, 3))
    axes.legend(ncols=2, fontsize="small")
    figure.savefig(RESULTS / "half-lives" / "half-lives.png", dpi=120)


def main() -> None:
    made = Made.here(seeds=[SEED])
    torch.set_num_threads(1)
    (RESULTS / "half-lives").mkdir(parents=True, exist_ok=True)
    lines, curves = [], {}
    for name in registered_names():
        cells, curves[name] = row(registered(name).config())
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    draw(curves)
    write_report(
        RESULTS / "half-lives" / "README.md",
        "# How far back every backbone remembers at the start of training\n\n"
        "The gradient of a new layer's last output with respect to its input some steps ago, of white noise, relative "
        "to that of one step ago; and within how many steps half of the response to earlier inputs lies, of the layer "
        f"and of a stack of three blocks with their MLPs. Width 128, {TIME:,} steps, the defaults. `memory` is the "
        "longest half-life that a layer starts with, in steps: [Time scales](../../docs/time-scales.md).\n\n"
        "| backbone | memory | 10 steps ago | 100 | 1,000 | half of the layer's response | of the stack's |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n" + "\n".join(lines) + "\n\n"
        "![Response against the number of steps ago](half-lives.png)",
        made,
    )


if __name__ == "__main__":
    main()
