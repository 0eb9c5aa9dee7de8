"""Adds to a folder of results/ the curve of how much history a task needs (history-curve.svg): scores of MLPs against
the number of steps that they see, and those of layers with a longer memory as bands.

    python scripts/history_curve.py results/goals/history

Lines are means over seeds, bars and bands their 95% intervals by Student's t, or with fewer than five seeds ranges.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt

from decision_rnn.comparison.results import Comparison, read_comparison
from decision_rnn.evaluation.statistics import summarise_seeds

PICTURE = "history-curve.svg"


def seen_steps(backbone: dict) -> int | None:
    """How many steps an MLP sees: every layer's convolution adds those of its kernel but one. None for other layers."""
    if backbone["name"] != "mlp":
        return None
    return 1 + backbone["layers"] * max(backbone["convolution"] - 1, 0)


def draw(comparison: Comparison, path: Path) -> None:
    figure, places = plt.subplots(
        1, len(comparison.datasets), sharey=True, squeeze=False, layout="constrained", figsize=(9, 4)
    )
    for place, dataset in zip(places[0], comparison.datasets, strict=True):
        runs, points = comparison.runs(dataset.data.name), []
        others = (f"C{number}" for number in range(1, 10))
        for variant in comparison.variants:
            mean = summarise_seeds([run.targets[0].score_mean for run in runs[variant.label]])
            score, low, high = (mean.value if end is None else end for end in (mean.value, mean.low, mean.high))
            if (steps := seen_steps(variant.config["backbone"])) is not None:
                points.append((steps, score, score - low, high - score))
                continue
            color = next(others)
            place.axhspan(low, high, color=color, alpha=0.12, linewidth=0)
            place.axhline(score, color=color, linewidth=1, label=comparison.names[variant.label])
        steps, scores, *errors = zip(*sorted(points), strict=True)
        place.errorbar(steps, scores, errors, fmt="o-", color="C0", capsize=3, label="MLP")
        place.set_xscale("log", base=2)
        place.set_xticks(steps, map(str, steps))
        place.set_title(dataset.data.name.partition("/")[2], fontsize=9)
        place.set_xlabel("steps that an MLP sees")
    places[0, 0].set_ylabel("score")
    handles, names = places[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", fontsize=8)
    with plt.rc_context({"svg.hashsalt": "decision-rnn"}):
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder, made by publish_comparison.py")
    folder = parser.parse_args().folder
    draw(read_comparison(folder), folder / PICTURE)
    with (folder / "README.md").open("a") as file:
        file.write(f"\n## Steps of history\n\n![Scores against steps of history]({PICTURE})\n")


if __name__ == "__main__":
    main()
