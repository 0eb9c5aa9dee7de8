"""Pictures of results, for people who would rather look than read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")  # no window: these are files
from matplotlib import pyplot as plt


def plot_comparison(comparison: dict[str, Any], path: Path) -> None:
    """Draw a comparison (comparison.json): per backbone and target the seeds' scores, their mean and interval.

    Args:
        comparison: As `comparison.compare` returns it.
        path: Of the PNG file.
    """
    data, entries = comparison["dataset"], comparison["backbones"]
    targets = comparison["protocol"]["target_returns"]
    figure, panels = plt.subplots(1, len(targets), figsize=(4 * len(targets) + 1, 3.4), sharey=True, squeeze=False)
    for i, panel in enumerate(panels[0]):
        panel.axhline(data["score_mean"], color="0.5", linestyle="--", linewidth=1, label="the data's mean")
        for x, entry in enumerate(entries):
            target = entry["targets"][i]
            spread = [[target["score_iqm"] - target["score_low"]], [target["score_high"] - target["score_iqm"]]]
            panel.errorbar(x, target["score_iqm"], spread, fmt="o", color=f"C{x}", capsize=4)
            panel.plot(
                [x + 0.2] * len(target["score_per_seed"]), target["score_per_seed"], ".", color=f"C{x}", alpha=0.6
            )
        panel.set_xticks(range(len(entries)), [entry["backbone"] for entry in entries])
        panel.set_xlim(-0.5, len(entries) - 0.5)
        panel.set_title(f"asked for {targets[i]:g}", fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("normalised score")
    panels[0][0].set_ylim(bottom=0)
    panels[0][-1].legend(frameon=False, fontsize=8, loc="lower right")
    figure.suptitle(f"{data['dataset']}, {len(comparison['seeds'])} seeds (small dots)", fontsize=11)
    _save(figure, path)


def plot_asked_against_achieved(curves: dict[str, Sequence[dict[str, Any]]], data_max: float, path: Path) -> None:
    """Draw the return achieved over the return asked for: an agent that obeys lies on the diagonal.

    Args:
        curves: Per backbone the targets of its evaluations (result.json's `targets`), of any number of seeds.
        data_max: The best return in the data: to the right of it lies extrapolation.
        path: Of the PNG file.
    """
    figure, panel = plt.subplots(figsize=(5.6, 4.6))
    for i, (name, targets) in enumerate(curves.items()):
        asked = sorted({target["target_return"] for target in targets})
        returns = [np.concatenate([t["returns"] for t in targets if t["target_return"] == a]) for a in asked]
        middle = [np.median(values) for values in returns]
        low, high = ([np.quantile(values, q) for values in returns] for q in (0.1, 0.9))
        panel.plot(asked, middle, "o-", markersize=3, linewidth=1.2, color=f"C{i}", label=name)
        panel.fill_between(asked, low, high, color=f"C{i}", alpha=0.12, linewidth=0)
    panel.axline((0, 0), slope=1, color="0.5", linestyle="--", linewidth=1)
    panel.axvline(data_max, color="0.5", linestyle=":", linewidth=1)
    panel.annotate("best in the data", (data_max, 0.03), xycoords=("data", "axes fraction"), rotation=90,
                   fontsize=8, color="0.4", ha="right")  # fmt: skip
    panel.set_xlabel("return asked for")
    panel.set_ylabel("return achieved (median, 10% to 90% of episodes)")
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


def _save(figure: plt.Figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
