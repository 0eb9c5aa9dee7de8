"""Adds to a folder of results/ how agents track target returns, and what the target `auto` scores beside fixed targets.

    python scripts/return_tracking.py results/locomotion mingru

Draws the achieved return of one variant against its target return on every dataset (return-tracking.svg), and adds a
table to README.md: the mean score at `auto` less that at the best of the fixed targets, chosen afterwards.
"""

import argparse
import math
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from decision_rnn.comparison.results import Comparison, read_comparison
from decision_rnn.utils.parsing import AUTO

PICTURE = "return-tracking.svg"


def table(comparison: Comparison) -> list[str]:
    """The differences of `auto` from the best fixed target, in Markdown, of all variants that have a target."""
    scores: dict[tuple[str, str], dict[float, float]] = defaultdict(dict)
    for row in comparison.table():
        if row["target_return"] is not None:
            scores[row["dataset"], row["variant"]][row["target_return"]] = row["score"]
    names = {label: name for label, name in comparison.names.items() if any(label == variant for _, variant in scores)}
    lines = [f"| `auto` less the best fixed target | {' | '.join(names.values())} |", "| --- " * (len(names) + 1) + "|"]
    for dataset in comparison.datasets:
        by_target = [scores[dataset.data.name, label] for label in names]
        cells = [f"{each.pop(AUTO) - max(each.values()):+.1f}" for each in by_target]
        lines.append(f"| {dataset.data.name} | {' | '.join(cells)} |")
    return lines


def draw(comparison: Comparison, variant: str, path: Path) -> None:
    """One panel for each dataset: a dot for each seed and target, the median return of its episodes."""
    columns = 3
    rows = math.ceil(len(comparison.datasets) / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(9, 2.9 * rows), layout="constrained", squeeze=False)
    for place, dataset in zip(axes.flat, comparison.datasets, strict=False):
        data = dataset.data
        place.axhspan(data.return_min, data.return_max, color="0.95")
        for run in comparison.runs(data.name)[variant]:
            for result in run.targets:
                achieved = float(np.median(result.returns))
                if result.target_return == AUTO:
                    place.axhline(achieved, color="C1", linewidth=1)
                else:
                    place.plot(result.target_return, achieved, "o", color="C0", markersize=4)
        fixed = [target.target_return for target in dataset.targets if target.target_return not in (None, AUTO)]
        place.axline((min(fixed), min(fixed)), slope=1, color="0.4", linestyle="--", linewidth=1)
        place.set_title(data.name.partition("/")[2], fontsize=9)
        place.set_xlim(min(fixed) - 0.05 * max(fixed), 1.05 * max(fixed))
    figure.supxlabel("target return")
    figure.supylabel("achieved return (median)")
    with plt.rc_context({"svg.hashsalt": "decision-rnn"}):
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder, made by publish_comparison.py")
    parser.add_argument("variant", help="the variant to draw")
    arguments = parser.parse_args()
    comparison = read_comparison(arguments.folder)
    draw(comparison, arguments.variant, arguments.folder / PICTURE)
    name = comparison.names[arguments.variant]
    lines = ["", "## Target returns", "", *table(comparison), "", f"![Return tracking]({PICTURE})", ""]
    lines.append(
        f"Median return of the episodes of each seed of {name} at target returns (dots) and at `auto` (lines). Gray: "
        "the range of the data's returns. Dashed: achieved equals target."
    )
    with (arguments.folder / "README.md").open("a") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
