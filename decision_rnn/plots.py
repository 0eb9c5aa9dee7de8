"""Plots of datasets and benchmark results."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np

matplotlib.use("Agg")  # plots are written to files, without a window
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator

from decision_rnn.comparison.report.svg import spread_out

if TYPE_CHECKING:
    from decision_rnn.bench.measure import Row


def plot_returns(name: str, returns: np.ndarray, lengths: np.ndarray, path: Path) -> None:
    """Plot a dataset: a histogram of its episodes' returns, and return over length.

    Args:
        name: The dataset's name.
        returns: (episodes,), undiscounted.
        lengths: (episodes,), in steps.
        path: The PNG file to write.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    left.hist(returns, bins=50, color="C0")
    left.axvline(float(returns.mean()), color="0.3", linestyle="--", linewidth=1, label=f"mean {returns.mean():.0f}")
    left.set_xlabel("return of an episode")
    left.set_ylabel("episodes")
    left.legend(frameon=False, fontsize=8)
    right.plot(lengths, returns, ".", markersize=2, alpha=0.4, color="C0")
    right.set_xlabel("length in steps")
    right.set_ylabel("return")
    for panel in (left, right):
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{name}: {len(returns)} episodes, {lengths.sum():,} steps", fontsize=11)
    _save(figure, path)


KIN = {
    "torch.nn.GRU": "gru",
    "torch.nn.LSTM": "lstm",
    "minGRU_pytorch.minGRU": "mingru",
    "minGRU_pytorch.minLSTM": "minlstm",
    "mambapy.MambaBlock": "mamba",
}
"""Layers of other packages, and our layers with the same equations."""
COLOURS = [*(f"C{i}" for i in range(10)), "black", "navy", "gold", "magenta"]


def plot_backbones(rows: Sequence["Row"], path: Path) -> None:
    """Plot the rows of `bench backbones`: time, speed and memory over length, a step's time over elapsed steps.

    Args:
        rows: The rows returned by bench.backbones.bench_backbones.
        path: The PNG file to write.
    """
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for row in rows:
        _, layer, point = row.name.split("/")
        kind, at = point.rsplit("-", 1)
        if kind not in ("core", "episodes"):
            curves.setdefault(kind, {}).setdefault(layer, []).append((int(at), row.value))
        if kind == "time":
            curves.setdefault("speed", {}).setdefault(layer, []).append((int(at), row.ratio))
    kinds = list(dict.fromkeys(KIN.get(layer, layer) for layer in curves["time"]))
    styles = {
        layer: {"color": COLOURS[kinds.index(KIN.get(layer, layer)) % len(COLOURS)], "dashes": (3, 2) * (layer in KIN)}
        for layer in curves["time"]
    }
    figure, panels = plt.subplots(2, 2, figsize=(12, 10.5))
    for panel, (kind, title) in zip(
        panels.flat,
        (
            ("time", "forward and backward, ms"),
            ("memory", "their peak memory, MB"),
            ("speed", "their speed, torch.nn.GRU's being 1"),
            ("step", "one recurrent step, µs"),
        ),
        strict=True,
    ):
        for layer, points in curves[kind].items():
            x, y = zip(*points, strict=True)
            panel.plot(x, y, "o-", markersize=4, linewidth=1.5, **styles[layer])
        panel.set_xscale("log")
        panel.set_yscale("log")
        ticks = sorted({x for points in curves[kind].values() for x, _ in points})
        panel.set_xticks(ticks, [f"{tick // 1000}k" if tick % 1000 == 0 else f"{tick}" for tick in ticks])
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if kind in ("speed", "step") else (1,)))
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.minorticks_off()
        panel.set_title(title, fontsize=13, loc="left", pad=14)
        panel.set_xlabel("steps taken before" if kind == "step" else "length of the sequence", fontsize=12)
        panel.tick_params(labelsize=11)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", alpha=0.25)
        _label_ends(panel, curves[kind], styles)
    _save(figure, path, dpi=110)


def _label_ends(panel: plt.Axes, curves: dict[str, list[tuple[int, float]]], styles: dict[str, dict[str, Any]]) -> None:
    """Write each curve's name beside its last point, moved up or down so that names do not overlap."""
    low, high = np.log(panel.get_ylim())
    ends = sorted(curves, key=lambda layer: curves[layer][-1][1])
    heights = [float((np.log(curves[layer][-1][1]) - low) / (high - low)) for layer in ends]
    places = spread_out(heights, 0.056)
    for layer, height, place in zip(ends, heights, places, strict=True):
        x, _ = curves[layer][-1]
        left, right = np.log(panel.get_xlim())
        panel.annotate(
            layer.replace("minGRU_pytorch.", "minGRU-pytorch "),
            ((np.log(x) - left) / (right - left), height), xycoords="axes fraction",
            xytext=(1.05, place), textcoords="axes fraction", va="center", fontsize=11, color=styles[layer]["color"],
            arrowprops={"arrowstyle": "-", "color": styles[layer]["color"], "linewidth": 0.6, "alpha": 0.6,
                        "relpos": (0, 0.5), "shrinkB": 4},
        )  # fmt: skip


def _save(figure: plt.Figure, path: Path, dpi: int = 150) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=dpi)
    plt.close(figure)
