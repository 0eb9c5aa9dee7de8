"""Figures of a comparison, as SVG whose colours follow the reader's light or dark theme."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from decision_rnn.comparison.record import ComparedDataset, Record
from decision_rnn.comparison.summary import learning_curves, measures, overall
from decision_rnn.comparison.tables import ALL
from decision_rnn.utils.parsing import AUTO

COLOURS = {  # name: light, dark; the colours of series have a contrast of at least 3:1 with the page
    "paper": ("#ffffff", "#14171b"),
    "ink": ("#1b1f24", "#e8eaed"),
    "muted": ("#59636e", "#9aa4ae"),
    "grid": ("#e3e7eb", "#2b3138"),
    "s0": ("#0b62a4", "#6cb6ff"),
    "s1": ("#c2410c", "#ff9a5c"),
    "s2": ("#047857", "#4ade80"),
    "s3": ("#a21caf", "#f0abfc"),
    "s4": ("#946200", "#facc15"),
    "s5": ("#0e7490", "#67e8f9"),
    "s6": ("#6d28d9", "#c4b5fd"),
    "s7": ("#be123c", "#fda4af"),
}
PAPER, INK, MUTED, GRID, *SERIES = (light for light, _ in COLOURS.values())
LIGHT, DARK = ("".join(f"--{name}:{colours[theme]};" for name, colours in COLOURS.items()) for theme in (0, 1))
VARIABLES = f":root{{{LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{DARK}}}}}"
"""The colours as CSS."""
WIDTH = 4.0
"""Width of a panel in inches: 288 points, 384 pixels, so that text of 9 points can be read on a phone."""
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "decision-rnn",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
}
Curves = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Values of x (points,) and of the seeds (seeds, points), by label."""


def render(panels: Sequence[Callable[[Axes], None]], height: float, text: str, key: str) -> str:
    """Panels drawn into one inline SVG with an alternative text; `key` makes its ids unique on a page."""
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    with mpl.rc_context(STYLE):
        figure = Figure((WIDTH * columns, height * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False).flat
        for number, axes in enumerate(grid):
            if number < len(panels):
                panels[number](axes)
                axes.xaxis.set_major_locator(MaxNLocator(5))
            else:
                axes.set_axis_off()
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{key}-", svg)
    for name, (light, _) in COLOURS.items():
        svg = svg.replace(light, f"var(--{name},{light})")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{text}" ', 1)


def scores_file(record: Record) -> str:
    """The scores over the datasets and on each of them, as the content of an SVG file."""
    datasets: list[ComparedDataset | None] = [None] * (overall(record) is not None)
    datasets += [dataset for dataset in record.datasets if record.runs(dataset.data.name)] or [None]
    svg = _scores(record, datasets, "f")
    return re.sub(r"(<svg [^>]*>)", rf"\1<style>{VARIABLES} svg{{background:var(--paper)}}</style>", svg, count=1)


def pictures(record: Record) -> dict[str, list[str]]:
    """Figures by the title of their section: the scores and, where there are several, the returns achieved by target
    and the scores of the checkpoints."""
    figures = {ALL: [_scores(record, [None], "all")] * (overall(record) is not None)}
    for number, dataset in enumerate(record.datasets):
        tracking, learning, svgs = _return_tracking(record, dataset), learning_curves(record, dataset), []
        if record.runs(dataset.data.name):
            svgs.append(_scores(record, [dataset], f"scores{number}"))
        if tracking:
            svgs.append(_curves(record, tracking, "Median achieved return", "target return", f"tracking{number}"))
        if any(len(steps) > 1 for steps, _ in learning.values()):
            svgs.append(_curves(record, learning, "Score of every checkpoint", "training steps", f"learning{number}"))
        figures[dataset.data.name] = svgs
    return figures


def _scores(record: Record, datasets: Sequence[ComparedDataset | None], key: str) -> str:
    """A panel for each dataset with the main measure of every variant; None for all datasets together."""
    panels = [partial(_draw_scores, record=record, dataset=dataset) for dataset in datasets]
    height = 0.85 + 0.27 * len(record.names)
    return render(panels, height, "Mean scores of the variants, which the table has as numbers", key)


def _draw_scores(axes: Axes, record: Record, dataset: ComparedDataset | None) -> None:
    """A row for each variant: its mean with interval or range, its seeds as dots; controls are hollow."""
    if dataset is None:
        summary, seeds, failed = overall(record), dict[str, tuple[float, ...]](), record.failures()
        means = summary.aggregates if summary else {}
        axes.set(title=ALL, xlabel="normalised score, interquartile mean")
    else:
        measure = measures(record, dataset)[0]
        seeds, failed = measure.values, measure.failed
        means = {label: measure.summary(label) for label in seeds}
        what = f"{measure.title} (lower is better)" if dataset.held_out else f"normalised score, {measure.title}"
        axes.set(title=dataset.data.name, xlabel=what.removesuffix(", score"))
    if dataset is not None and dataset.held_out is None:
        axes.axvline(dataset.data.score_mean, color=MUTED, linestyle=":", linewidth=1, zorder=1)
        across = axes.get_xaxis_transform()
        axes.annotate("data", (dataset.data.score_mean, 0), (3, 3), across, "offset points", color=MUTED, fontsize=8)
    variants = [variant for variant in record.variants if variant.label in means or failed[variant.label]]
    marks = [f" ({failed[variant.label]} failed)" * (variant.label in failed) for variant in variants]
    names = [record.names[variant.label] + mark for variant, mark in zip(variants, marks, strict=True)]
    for row, variant in enumerate(variants):
        if (mean := means.get(variant.label)) is None:
            continue
        color, values = MUTED if variant.control else SERIES[0], seeds.get(variant.label, ())
        axes.scatter(values, [row + 0.24] * len(values), 7, color, linewidths=0, alpha=0.7)
        if mean.low is not None and mean.high is not None:
            width = 2.4 if mean.spread == "95% interval" else 1.0
            axes.plot([mean.low, mean.high], [row, row], color=color, linewidth=width, zorder=2)
        face = PAPER if variant.control else color
        axes.scatter([mean.score], [row], 42, face, edgecolors=color, linewidths=1.5, zorder=3)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")


def _return_tracking(record: Record, dataset: ComparedDataset) -> Curves:
    """Target returns and the seeds' median achieved returns, of the variants with several targets."""
    curves = {}
    for label, runs in record.runs(dataset.data.name).items():
        medians = [{result.target_return: np.median(result.returns) for result in run.targets} for run in runs]
        if len(targets := sorted(target for target in medians[0] if target not in (None, AUTO))) > 1:
            curves[label] = (
                np.array(targets),
                np.array([[by_target[each] for each in targets] for by_target in medians]),
            )
    return curves


def _curves(record: Record, curves: Curves, title: str, xlabel: str, key: str) -> str:
    """The mean over the seeds and the band of their range; returns have a line where they are as the target."""

    def draw(axes: Axes) -> None:
        for number, (label, name) in enumerate(record.names.items()):
            if label in curves:
                x, y = curves[label]
                color, marker = SERIES[number % len(SERIES)], "osD^vPX*"[number % 8]
                style = ("-", "--", "-.")[number // len(SERIES) % 3]
                axes.fill_between(x, y.min(axis=0), y.max(axis=0), color=color, alpha=0.12, linewidth=0)
                axes.plot(x, y.mean(axis=0), style, color=color, marker=marker, markersize=4, label=name)
        if xlabel == "target return":
            axes.axline((x[0], x[0]), slope=1, color=MUTED, linestyle="--", linewidth=1, zorder=1)
        axes.set(title=title, xlabel=xlabel)
        axes.grid()
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2, borderaxespad=0)

    return render([draw], 2.9 + 0.1 * len(curves), f"{title} by {xlabel}", key)
