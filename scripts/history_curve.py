"""Adds to a folder of results/ the curve of how much history a task needs (history-curve.svg): scores of MLPs against
the number of steps that they see, and beside them those of layers with a longer memory.

    python scripts/history_curve.py results/goals/history

Points are means over seeds, bars their 95% intervals by Student's t, or with fewer than five seeds ranges; dots are the
seeds.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from decision_rnn.comparison.results import Comparison, read_comparison
from decision_rnn.evaluation.statistics import summarise_seeds
from decision_rnn.utils.messages import pluralize

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
    steps = {variant.label: seen_steps(variant.config["backbone"]) for variant in comparison.variants}
    mlps = sorted((label for label in steps if steps[label]), key=steps.get)
    labels = [*mlps, *(label for label in steps if not steps[label])]
    x = [number + 0.5 * (number >= len(mlps)) for number in range(len(labels))]
    names = [
        f"MLP,\n{pluralize(steps[label], 'step')}" if label in mlps else comparison.names[label] for label in labels
    ]
    for place, dataset in zip(places[0], comparison.datasets, strict=True):
        runs = comparison.runs(dataset.data.name)
        scores = [[run.targets[0].score_mean for run in runs[label]] for label in labels]
        summaries = [(each.value, each.low, each.high) for each in map(summarise_seeds, scores)]
        rows = [[mean if end is None else end for end in (mean, *ends)] for mean, *ends in summaries]
        mean, low, high = np.array(rows).T
        place.errorbar(x, mean, [mean - low, high - mean], fmt="o", color="C0", capsize=3)
        place.plot(x[: len(mlps)], mean[: len(mlps)], color="C0")
        for position, seeds in zip(x, scores, strict=True):
            place.plot([position + 0.15] * len(seeds), seeds, ".", color="grey")
        place.set_xticks(x, names, fontsize=8)
        place.set_title(dataset.data.name.partition("/")[2], fontsize=9)
    places[0, 0].set_ylabel("score")
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
