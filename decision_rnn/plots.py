"""Pictures of results, for people who would rather look than read."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np

matplotlib.use("Agg")  # no window: these are files
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator

if TYPE_CHECKING:
    from decision_rnn.bench.measure import Row
    from decision_rnn.evaluation.results import TargetResult


def plot_comparison(comparison: dict[str, Any], path: Path) -> None:
    """Draw a comparison (comparison.json): per variant and target every seed's score, and what they come to.

    Few seeds have a dot each beside a line over their range; from where there is an interval, it has caps.

    Args:
        comparison: As `comparison.compare.compare` returns it.
        path: Of the PNG file.
    """
    data, entries = comparison["dataset"], comparison["variants"]
    names, asked = [entry["label"] for entry in entries], comparison["protocol"]["target_returns"]
    figure, panels = plt.subplots(1, len(asked), figsize=(4 * len(asked) + 1, 3.4), sharey=True, squeeze=False)
    shown, lowest = {"dots: seeds"}, 0.0
    for target_return, panel in zip(asked, panels[0], strict=True):
        panel.axhline(data["score_mean"], color="0.5", linestyle="--", linewidth=1, label="the data's mean")
        panel.set_title("cloning" if target_return is None else f"asked for {target_return:g}", fontsize=10)
        for x, entry in enumerate(entries):
            for target in entry["targets"]:
                if target["target_return"] != target_return:
                    continue
                scores = target["score_per_seed"]
                lowest = min(lowest, *scores)
                if target["in_range"] is False:
                    panel.set_title(f"asked for {target_return:g}, beyond the data", fontsize=10)
                panel.plot([x + 0.2] * len(scores), scores, ".", color=f"C{x}", alpha=0.6)
                if target["spread"] is None:
                    continue
                if target["spread"] == "range":
                    panel.plot([x, x], [target["low"], target["high"]], color=f"C{x}", linewidth=1)
                    panel.plot([x], [target["score"]], "_", color=f"C{x}", markersize=12)
                else:
                    spread = [[target["score"] - target["low"]], [target["high"] - target["score"]]]
                    panel.errorbar(x, target["score"], spread, fmt="o", color=f"C{x}", capsize=4)
                shown.add(f"{'line' if target['spread'] == 'range' else 'bar'}: {target['spread']}")
        panel.set_xticks(range(len(entries)), names, rotation=90 if len(names) > 6 else 0)
        panel.set_xlim(-0.5, len(entries) - 0.5)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("normalised score")
    panels[0][0].set_ylim(bottom=1.05 * lowest)
    panels[0][-1].legend(frameon=False, fontsize=8, loc="lower right")
    seeds = ", ".join(map(str, comparison["seeds"]))
    figure.suptitle(f"{data['name']}, seeds {seeds} ({', '.join(sorted(shown, reverse=True))})", fontsize=11)
    _save(figure, path)


def plot_asked_against_achieved(curves: dict[str, Sequence["TargetResult"]], data_max: float, path: Path) -> None:
    """Draw the return achieved over the return asked for: an agent that obeys lies on the diagonal.

    Args:
        curves: Per variant the targets of its results, of any number of seeds.
        data_max: The best return in the data: to the right of it lies extrapolation.
        path: Of the PNG file.
    """
    figure, panel = plt.subplots(figsize=(5.6, 4.6))
    for i, (name, targets) in enumerate(curves.items()):
        asked = sorted({target.target_return for target in targets if target.target_return is not None})
        returns = [np.concatenate([t.returns for t in targets if t.target_return == a]) for a in asked]
        middle = [np.median(values) for values in returns]
        low, high = ([np.quantile(values, q) for values in returns] for q in (0.1, 0.9))
        line = "-" if i < 10 else ":"  # there are ten colours
        panel.plot(asked, middle, f"o{line}", markersize=3, linewidth=1.2, color=f"C{i % 10}", label=name)
        if len(curves) <= 4:  # more bands than that hide one another
            panel.fill_between(asked, low, high, color=f"C{i % 10}", alpha=0.12, linewidth=0)
    panel.axline((0, 0), slope=1, color="0.5", linestyle="--", linewidth=1)
    panel.axvline(data_max, color="0.5", linestyle=":", linewidth=1)
    panel.annotate("best in the data", (data_max, 0.03), xycoords=("data", "axes fraction"), rotation=90,
                   fontsize=8, color="0.4", ha="right")  # fmt: skip
    panel.set_xlabel("return asked for")
    panel.set_ylabel("return achieved (median" + (", 10% to 90% of episodes)" if len(curves) <= 4 else ")"))
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=9)
    _save(figure, path)


def plot_returns(name: str, returns: np.ndarray, lengths: np.ndarray, path: Path) -> None:
    """Draw what a dataset holds: episodes by return, and return over length.

    Args:
        name: Of the dataset.
        returns: (episodes,) undiscounted.
        lengths: (episodes,) in steps.
        path: Of the PNG file.
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
"""Other packages' layers, and ours of the same equations."""
COLOURS = [*(f"C{i}" for i in range(10)), "black", "navy", "gold", "magenta"]


def plot_backbones(rows: Sequence["Row"], path: Path) -> None:
    """Draw the rows of `bench backbones`: time, speed and memory over length, the step's cost over elapsed steps.

    Args:
        rows: As bench.backbones.bench_backbones returns them.
        path: Of the PNG file.
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
    """Write each curve's name beside its last point, moved up or down as far as the names would overlap."""
    low, high = np.log(panel.get_ylim())
    ends = sorted(curves, key=lambda layer: curves[layer][-1][1])
    gap = min(1.0 / max(len(ends), 1), 0.056)
    heights = [float((np.log(curves[layer][-1][1]) - low) / (high - low)) for layer in ends]
    places = list(heights)
    for _ in range(200):  # neighbours push each other apart, and the frame pushes back
        for i in range(1, len(places)):
            overlap = gap - (places[i] - places[i - 1])
            if overlap > 0:
                places[i] += overlap / 2
                places[i - 1] -= overlap / 2
        places = [min(max(place, 0.0), 1.0) for place in places]
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
