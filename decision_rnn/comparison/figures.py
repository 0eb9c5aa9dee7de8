"""Figures of a comparison, as SVG."""

import io
import itertools
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from decision_rnn.comparison.record import ComparedDataset, Record
from decision_rnn.comparison.summary import compared_scores, overall
from decision_rnn.comparison.tables import ALL
from decision_rnn.utils.parsing import AUTO

WIDTH = 4.0  # in inches: 288 points, so that text of 9 points can be read on a phone
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "decision-rnn",
    "font.size": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "legend.frameon": False,
    "legend.fontsize": 8,
}


def render(draw: Callable[[Axes], object], height: float) -> str:
    """A figure as the content of an SVG file."""
    file = io.StringIO()
    with mpl.rc_context(STYLE):
        figure = Figure((WIDTH, height), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def scores(record: Record, dataset: ComparedDataset | None) -> str:
    """The main score of every variant on a dataset, or, if None, over all of them, empty if they share none: means
    with interval or range, and dots for the seeds; those of controls are hollow."""
    seeds, failed = dict[str, list[float]](), record.failures(dataset.data.name if dataset else None)
    if dataset is not None:
        compared = compared_scores(record, dataset)[0]
        seeds, means = compared.values, {label: compared.means[label] for label in compared.values}
        what = f"normalised score, {compared.title}" if dataset.targets else compared.title
    elif summary := overall(record):
        means, what = summary.aggregates, "normalised score, interquartile mean"
    else:
        return ""
    variants = [variant for variant in record.variants if variant.label in means or failed[variant.label]]
    marks = {label: f" ({count} failed)" for label, count in failed.items()}
    names = [record.names[each.label] + marks.get(each.label, "") for each in variants]

    def draw(axes: Axes) -> None:
        for row, variant in enumerate(variants):
            color, values = "0.4" if variant.control else "C0", seeds.get(variant.label, [])
            axes.scatter(values, [row + 0.24] * len(values), 7, color, linewidths=0, alpha=0.7)
            if (mean := means.get(variant.label)) is not None:
                if mean.low is not None and mean.high is not None:
                    width = 2.4 if mean.spread == "95% interval" else 1.0
                    axes.plot([mean.low, mean.high], [row, row], color=color, linewidth=width, zorder=2)
                face = "white" if variant.control else color
                axes.scatter([mean.value], [row], 42, face, edgecolors=color, linewidths=1.5, zorder=3)
        if dataset is not None and dataset.targets:
            axes.axvline(dataset.data.score_mean, color="0.4", linestyle=":", linewidth=1, zorder=1)
            place = (dataset.data.score_mean, 0), (3, 3), axes.get_xaxis_transform(), "offset points"
            axes.annotate("data", *place, color="0.4", fontsize=8)
        axes.set(title=dataset.data.name if dataset else ALL, xlabel=what.removesuffix(", score"))
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(axis="x")

    return render(draw, 0.85 + 0.27 * len(names))


def return_tracking(record: Record, dataset: ComparedDataset) -> str:
    """Median achieved return by target return, with the band of the seeds' range; empty below two targets, and where no
    variant is played at them."""
    targets = sorted(each.target_return for each in dataset.targets if each.target_return not in (None, AUTO))
    achieved = dict[str, np.ndarray]()
    for label, runs in record.runs(dataset.data.name).items():
        medians = [{result.target_return: np.median(result.returns) for result in run.targets} for run in runs]
        if medians[0].keys() >= {*targets}:
            achieved[record.names[label]] = np.array([[each[target] for target in targets] for each in medians])

    def draw(axes: Axes) -> None:
        for (name, y), marker in zip(achieved.items(), itertools.cycle("osD^vPX*")):
            (line,) = axes.plot(targets, y.mean(axis=0), f"{marker}-", markersize=4, label=name)
            axes.fill_between(targets, y.min(axis=0), y.max(axis=0), color=line.get_color(), alpha=0.12)
        axes.axline((targets[0], targets[0]), slope=1, color="0.4", linestyle="--", linewidth=1, zorder=1)
        axes.set(title="Return tracking", xlabel="target return", ylabel="achieved return (median)")
        axes.grid()
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2, borderaxespad=0)

    return render(draw, 2.9 + 0.1 * len(record.names)) if achieved and len(targets) > 1 else ""
