"""Makes asked-achieved.png in a folder of results/: achieved against target return of a comparison's agents.

    decision-rnn compare --config configs/comparisons/kinds-of-data.yaml --output runs/kinds-of-data
    cp runs/kinds-of-data/comparison.json results/kinds-of-data
    python scripts/asked_achieved.py results/kinds-of-data

A panel for each dataset; bc, if the comparison has it, as a line. The target `best` is where the agent's limit is.
"""

import argparse
import math
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from decision_rnn.comparison.record import ComparedDataset, Comparison, read_comparison
from decision_rnn.utils.parsing import BEST

INK, PALE, CLONING = "#1f4e8c", "#9db8d9", "#c26a1b"


def curves(comparison: Comparison, dataset: ComparedDataset, variant: str) -> dict[float | None, list[float]]:
    """The median return of each seed's episodes, by target return in ascending order; bc has the target None."""
    medians: dict[float | None, list[float]] = {}
    for cell in comparison.trials:
        if (cell.variant, cell.dataset) == (variant, dataset.data.name):
            for achieved in cell.targets:
                medians.setdefault(achieved.target_return, []).append(float(np.median(achieved.returns)))
    return dict(sorted(medians.items()))


def limit_of(comparison: Comparison, dataset: ComparedDataset, variant: str) -> float | None:
    """What the agents of a variant are asked for by the target `best`, if they are."""
    cells = [cell for cell in comparison.trials if (cell.variant, cell.dataset) == (variant, dataset.data.name)]
    return next((of.asked_mean for cell in cells for of in cell.targets if of.target_return == BEST), None)


def draw(axes: Axes, comparison: Comparison, dataset: ComparedDataset, variant: str) -> None:
    """Plot one dataset: a line for the mean over seeds, a dot per seed, `best`, the diagonal, the data's range, bc."""
    data, medians = dataset.data, curves(comparison, dataset, variant)
    best = medians.pop(BEST, [])
    top = 1.1 * max(*medians, *best, data.return_max)
    axes.axvspan(data.return_min, data.return_max, color="0.94", linewidth=0)
    axes.plot([0, top], [0, top], color="0.55", linestyle="--", linewidth=1)
    for asked, seeds in medians.items():
        axes.plot([asked] * len(seeds), seeds, ".", color=PALE, markersize=5)
    axes.plot(list(medians), [np.mean(seeds) for seeds in medians.values()], "o-", color=INK, markersize=4)
    if best:  # apart from the line: it is asked for at every step, whatever has been earned
        place = limit_of(comparison, dataset, variant), np.mean(best)
        axes.plot([place[0]] * len(best), best, ".", color=PALE, markersize=5)
        axes.plot(*place, "*", color=INK, markersize=9)
        axes.annotate("best", place, (5, 3), textcoords="offset points", color=INK, fontsize=8)
    if seeds := curves(comparison, dataset, "bc").get(None):
        axes.axhline(float(np.mean(seeds)), color=CLONING, linestyle=":", linewidth=1.5)
        axes.annotate("bc", (0.02 * top, np.mean(seeds)), color=CLONING, fontsize=8, va="bottom")
    axes.set(xlim=(0, top), ylim=(0, top), aspect="equal")
    axes.set_title(data.name.removeprefix("standin/"), fontsize=10)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder that holds comparison.json; the picture goes there too")
    parser.add_argument("--variant", default="mingru", help="which of its variants (default: mingru)")
    options = parser.parse_args()
    comparison = read_comparison(options.folder)
    columns = len(comparison.datasets) if len(comparison.datasets) <= 5 else 3
    rows = math.ceil(len(comparison.datasets) / columns)
    figure = Figure(figsize=(2.9 * columns, 0.3 + 3 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, dataset in zip(panels, comparison.datasets, strict=False):
        draw(axes, comparison, dataset, options.variant)
    for axes in panels[len(comparison.datasets) :]:
        axes.set_visible(False)
    figure.supylabel("median return achieved", fontsize=9)
    figure.supxlabel("target return (grey: the range of the data)", fontsize=9)
    figure.savefig(options.folder / "asked-achieved.png", dpi=130)


if __name__ == "__main__":
    main()
