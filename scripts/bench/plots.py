"""Plots of benchmark results."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")  # plots are written to files, without a window
from matplotlib import pyplot as plt

from bench.measure import Row

KIN = {
    "torch.nn.GRU": "gru",
    "torch.nn.LSTM": "lstm",
    "minGRU_pytorch.minGRU": "mingru",
    "minGRU_pytorch.minLSTM": "minlstm",
    "mambapy.MambaBlock": "mamba",
}
"""Layers of other packages, drawn dashed, and our layers with the same equations, in the same colour."""
PANELS = {
    "time": "forward and backward, ms",
    "memory": "their peak memory, MB",
    "speed": "their speed, torch.nn.GRU's being 1",
    "step": "one recurrent step, µs",
}


def plot_backbones(rows: Sequence[Row], path: Path) -> None:
    """Plot the rows of `bench backbones`: time, speed and memory over length, a step's time over elapsed steps.

    Args:
        rows: The rows returned by bench.backbones.bench_backbones.
        path: The PNG file to write.
    """
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {kind: {} for kind in PANELS}
    for row in rows:
        _, layer, point = row.name.split("/")
        kind, at = point.rsplit("-", 1)
        if kind in curves:
            curves[kind].setdefault(layer, []).append((int(at), row.value))
        if kind == "time":
            curves["speed"].setdefault(layer, []).append((int(at), row.ratio))
    kinds = list(dict.fromkeys(KIN.get(layer, layer) for layer in curves["time"]))
    colours = plt.get_cmap("tab20")(np.r_[0:20:2, 1:20:2])
    figure, panels = plt.subplots(2, 2, figsize=(12, 10.5), layout="constrained")
    for panel, (kind, title) in zip(panels.flat, PANELS.items(), strict=True):
        for layer, points in curves[kind].items():
            colour = colours[kinds.index(KIN.get(layer, layer)) % len(colours)]
            panel.loglog(*zip(*points, strict=True), "o--" if layer in KIN else "o-", color=colour, label=layer)
        panel.set_title(title, loc="left")
        panel.set_xlabel("steps taken before" if kind == "step" else "length of the sequence")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", alpha=0.25)
    figure.legend(*panels.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
