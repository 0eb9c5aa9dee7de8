"""Figures of a comparison, as SVG whose colours follow the reader's light or dark theme."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from decision_rnn.comparison.record import ComparedDataset, Record
from decision_rnn.comparison.summary import measures, overall
from decision_rnn.comparison.tables import ALL
from decision_rnn.utils.parsing import AUTO

CSS = Path(__file__).with_name("colours.css").read_text()
LIGHT = dict(re.findall(r"--(\w+): (#\w+)", CSS.partition("@media")[0]))
"""Colours by name. Figures are drawn in those of the light theme, which then become CSS variables."""
PAPER, INK, MUTED, GRID, *SERIES = LIGHT.values()
WIDTH = 4.0  # in inches: 288 points, so that text of 9 points can be read on a phone
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "decision-rnn",
    "font.size": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": INK,
    "xaxis.labellocation": "right",
    "legend.frameon": False,
    "legend.fontsize": 8,
}


def render(draw: Callable[[Axes], object], height: float, text: str, key: str) -> str:
    """A figure as inline SVG with an alternative text; `key` makes its ids unique on a page."""
    file = io.StringIO()
    with mpl.rc_context(STYLE):
        figure = Figure((WIDTH, height), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = re.sub(r"^.*?(?=<svg )|<metadata>.*?</metadata>", "", file.getvalue(), flags=re.DOTALL)
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{key}-", svg)
    for name, colour in LIGHT.items():
        svg = svg.replace(colour, f"var(--{name},{colour})")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{text}" ', 1)


def scores_file(record: Record) -> str:
    """The scores over the datasets, or on the first one, as the content of an SVG file."""
    svg = scores(record, None, "f") or scores(record, record.datasets[0], "f")
    return re.sub(r"(<svg [^>]*>)", rf"\1<style>{CSS} svg {{ background: var(--paper) }}</style>", svg, count=1)


def scores(record: Record, dataset: ComparedDataset | None, key: str) -> str:
    """The main measure of every variant on a dataset, or, if None, over all of them, empty if they share none: means
    with interval or range, and dots for the seeds; those of controls are hollow."""
    seeds, failed = dict[str, list[float]](), record.failures(dataset.data.name if dataset else None)
    if dataset is not None:
        measure = measures(record, dataset)[0]
        seeds, means = measure.values, {label: measure.means[label] for label in measure.values}
        what = f"normalised score, {measure.title}" if dataset.targets else measure.title
    elif summary := overall(record):
        means, what = summary.aggregates, "normalised score, interquartile mean"
    else:
        return ""
    variants = [variant for variant in record.variants if variant.label in means or failed[variant.label]]
    marks = {label: f" ({count} failed)" for label, count in failed.items()}
    names = [record.names[each.label] + marks.get(each.label, "") for each in variants]

    def draw(axes: Axes) -> None:
        for row, variant in enumerate(variants):
            color, values = MUTED if variant.control else SERIES[0], seeds.get(variant.label, [])
            axes.scatter(values, [row + 0.24] * len(values), 7, color, linewidths=0, alpha=0.7)
            if (mean := means.get(variant.label)) is not None:
                if mean.low is not None and mean.high is not None:
                    width = 2.4 if mean.spread == "95% interval" else 1.0
                    axes.plot([mean.low, mean.high], [row, row], color=color, linewidth=width, zorder=2)
                face = PAPER if variant.control else color
                axes.scatter([mean.value], [row], 42, face, edgecolors=color, linewidths=1.5, zorder=3)
        if dataset is not None and dataset.targets:
            axes.axvline(dataset.data.score_mean, color=MUTED, linestyle=":", linewidth=1, zorder=1)
            place = (dataset.data.score_mean, 0), (3, 3), axes.get_xaxis_transform(), "offset points"
            axes.annotate("data", *place, color=MUTED, fontsize=8)
        axes.set(title=dataset.data.name if dataset else ALL, xlabel=what.removesuffix(", score"))
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")

    return render(draw, 0.85 + 0.27 * len(names), "Mean scores of the variants, which the table has as numbers", key)


def return_tracking(record: Record, dataset: ComparedDataset, key: str) -> str:
    """Median achieved return by target return, with the band of the seeds' range; empty below two targets."""
    targets = sorted(each.target_return for each in dataset.targets if each.target_return not in (None, AUTO))

    def draw(axes: Axes) -> None:
        for number, (label, runs) in enumerate(record.runs(dataset.data.name).items()):
            medians = [{result.target_return: np.median(result.returns) for result in run.targets} for run in runs]
            if medians[0].keys() >= {*targets}:
                y = np.array([[by_target[each] for each in targets] for by_target in medians])
                color, style = SERIES[number % len(SERIES)], "osD^vPX*"[number % 8] + ("-", "--", "-.")[number // 8 % 3]
                axes.fill_between(targets, y.min(axis=0), y.max(axis=0), color=color, alpha=0.12, linewidth=0)
                axes.plot(targets, y.mean(axis=0), style, color=color, markersize=4, label=record.names[label])
        axes.axline((targets[0], targets[0]), slope=1, color=MUTED, linestyle="--", linewidth=1, zorder=1)
        axes.set(title="Return tracking", xlabel="target return", ylabel="achieved return (median)")
        axes.grid()
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2, borderaxespad=0)

    height = 2.9 + 0.1 * len(record.names)
    return render(draw, height, "Median achieved return by target return", key) if len(targets) > 1 else ""
