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

from decision_rnn.comparison.record import ComparedDataset
from decision_rnn.comparison.summary import Measure, Summary
from decision_rnn.comparison.tables import listed
from decision_rnn.evaluation.statistics import SeedScores
from decision_rnn.utils.parsing import AUTO

THEMES = {  # name: light, dark; the colours of series have a contrast of at least 3:1 with the page
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
CODES = {name: f"#00ff{number:02x}" for number, name in enumerate(THEMES)}
"""Colours that matplotlib draws with, which become CSS variables."""
COLOURS, DARK = ("".join(f"--{name}:{colours[theme]};" for name, colours in THEMES.items()) for theme in (0, 1))
VARIABLES = f":root{{{COLOURS}}}@media(prefers-color-scheme:dark){{:root{{{DARK}}}}}"
"""The colours as CSS."""
SERIES = 8
MARKERS = "osD^vPX*"
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
    "axes.edgecolor": CODES["muted"],
    "axes.labelcolor": CODES["muted"],
    "axes.facecolor": "none",
    "grid.color": CODES["grid"],
    "text.color": CODES["ink"],
    "xtick.color": CODES["muted"],
    "ytick.color": CODES["ink"],
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
}
Draw = Callable[[Axes], None]


def render(panels: Sequence[Draw], heights: Sequence[float], description: str, key: str, columns: int = 1) -> str:
    """Draw panels into one inline SVG, with a text alternative; `key` makes its ids unique on a page."""
    rows = max(1, -(-len(panels) // columns))
    tallest = [max(heights[row * columns : (row + 1) * columns], default=1.0) for row in range(rows)]
    with mpl.rc_context(STYLE):
        figure = Figure((WIDTH * columns, sum(tallest)), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, height_ratios=tallest)
        for draw, axes in zip(panels, grid.flat, strict=False):
            draw(axes)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{key}-", svg)
    for name, code in CODES.items():
        svg = svg.replace(code, f"var(--{name},{THEMES[name][0]})")
    text = description.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{text}" ', 1)


def scores_file(summary: Summary) -> str:
    """The scores over the datasets and on each of them, as the content of an SVG file."""
    datasets: list[ComparedDataset | None] = [None] * (summary.overall() is not None)
    datasets += [dataset for dataset in summary.record.datasets if summary.trials(dataset)]
    svg = scores(summary, datasets, "f", columns=min(3, max(1, len(datasets))))
    return re.sub(r"(<svg [^>]*>)", rf"\1<style>{VARIABLES} svg{{background:var(--paper)}}</style>", svg, count=1)


def scores(summary: Summary, datasets: Sequence[ComparedDataset | None], key: str, columns: int = 1) -> str:
    """A panel for each dataset with the main measure of every variant; None for all datasets together."""
    panels, texts = [], []
    for dataset in datasets:
        panels.append(partial(_draw_scores, summary=summary, dataset=dataset))
        means, title = _means(summary, dataset)[0], "All datasets" if dataset is None else dataset.data.name
        texts.append(f"{title}: {listed(f'{summary.names[label]} {of.score:.4g}' for label, of in means.items())}.")
    height = 0.85 + 0.27 * len(summary.names)
    return render(panels, [height] * len(panels), f"Mean scores. {' '.join(texts)}", key, columns)


def return_tracking(summary: Summary, dataset: ComparedDataset, key: str) -> str | None:
    """Median achieved return over the target return, with the range of the seeds; None below two targets."""
    curves = {}
    for label, runs in summary.trials(dataset).items():
        targets = [result.target_return for result in runs[0].targets if result.target_return not in (None, AUTO)]
        medians = [{of.target_return: np.median(of.returns) for of in run.targets} for run in runs]
        if len(targets) > 1:
            asked = sorted(target for target in targets if target is not None)
            curves[label] = np.array(asked), np.array([[of_run[target] for target in asked] for of_run in medians])
    if not curves:
        return None

    def draw(axes: Axes) -> None:
        _draw_curves(axes, summary, curves)
        low, high = axes.get_xlim()
        axes.plot([low, high], [low, high], color=CODES["muted"], linestyle="--", linewidth=1, zorder=1, label="_")
        axes.set(xlabel="target return", ylabel="achieved return (median)", xlim=(low, high))
        if low < dataset.data.return_max < high:
            _mark(axes, dataset.data.return_max, "best in data")
        axes.set_title("Target and achieved return")

    texts = []
    for label, (x, y) in curves.items():
        pairs = (f"{target:.6g} gives {value:.4g}" for target, value in zip(x, y.mean(axis=0), strict=True))
        texts.append(f"{summary.names[label]}: {', '.join(pairs)}")
    return render([draw], [_curves_height(curves)], f"Achieved return by target return. {'; '.join(texts)}.", key)


def learning_curves(summary: Summary, dataset: ComparedDataset, key: str) -> str | None:
    """Scores of the checkpoints over training steps; None where only the last one was evaluated."""
    curves = summary.learning_curves(dataset)
    if not any(len(steps) > 1 for steps, _ in curves.values()):
        return None

    def draw(axes: Axes) -> None:
        _draw_curves(axes, summary, curves)
        axes.set(xlabel="training steps", ylabel="normalised score")
        axes.set_title("Score of every checkpoint")

    ends = (f"{summary.names[of]} ends at {y[:, -1].mean():.1f}" for of, (_, y) in curves.items())
    return render([draw], [_curves_height(curves)], f"Scores over training steps: {listed(ends)}.", key)


def _curves_height(curves: Mapping[str, object]) -> float:
    return 2.9 + 0.19 * -(-len(curves) // 2)


def _means(summary: Summary, dataset: ComparedDataset | None) -> tuple[dict[str, SeedScores], Measure | None]:
    if dataset is None:
        overall = summary.overall()
        return (overall.aggregates if overall else {}), None
    measure = summary.measures(dataset)[0]
    return {label: measure.summary(label) for label in measure.values}, measure


def _draw_scores(axes: Axes, summary: Summary, dataset: ComparedDataset | None) -> None:
    """A row for each variant: its mean with interval or range, its seeds as dots; controls are hollow."""
    means, measure = _means(summary, dataset)
    seeds, failed = (measure.values, measure.failed) if measure else ({}, summary.failed())
    controls = {variant.label for variant in summary.record.variants if variant.control}
    labels = [label for label in summary.names if label in means or label in failed]
    for row, label in enumerate(labels):
        if label not in means:
            continue
        color, mean, values = CODES["muted" if label in controls else "s0"], means[label], seeds.get(label, ())
        axes.scatter(values, [row + 0.24] * len(values), 7, color, linewidths=0, alpha=0.7)
        if mean.low is not None and mean.high is not None:
            width = 2.4 if mean.spread == "95% interval" else 1.0
            axes.plot([mean.low, mean.high], [row, row], color=color, linewidth=width, zorder=2)
        face = CODES["paper"] if label in controls else color
        axes.scatter([mean.score], [row], 42, face, edgecolors=color, linewidths=1.5, zorder=3)
    marks = {label: f" ({count} failed)" for label, count in failed.items()}
    axes.set_yticks(range(len(labels)), [summary.names[label] + marks.get(label, "") for label in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.grid(axis="x", linewidth=0.8)
    axes.set_axisbelow(True)
    if dataset is None or measure is None:
        axes.set(title="All datasets", xlabel="normalised score, interquartile mean")
    elif dataset.held_out is not None:
        axes.set(title=dataset.data.name, xlabel=f"{measure.title} (lower is better)")
    else:
        _mark(axes, dataset.data.score_mean, "data")
        axes.set(title=dataset.data.name, xlabel=f"normalised score, {measure.title}".removesuffix(", score"))


def _mark(axes: Axes, x: float, text: str) -> None:
    """A labelled vertical line."""
    axes.axvline(x, color=CODES["muted"], linestyle=":", linewidth=1, zorder=1)
    across, place = axes.get_xaxis_transform(), (3, 3)
    axes.annotate(text, (x, 0), place, across, "offset points", color=CODES["muted"], fontsize=8)


def _draw_curves(axes: Axes, summary: Summary, curves: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Curves (points,) with the values of the seeds (seeds, points): their mean and the band of their range."""
    order = [*summary.names]
    for label, (x, y) in curves.items():
        number = order.index(label)
        color = CODES[f"s{number % SERIES}"]
        axes.fill_between(x, y.min(axis=0), y.max(axis=0), color=color, alpha=0.12, linewidth=0)
        marker = MARKERS[number % len(MARKERS)]
        style = ("-", "--", "-.")[number // SERIES % 3]
        axes.plot(x, y.mean(axis=0), style, color=color, marker=marker, markersize=4, label=summary.names[label])
    axes.grid(linewidth=0.8)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2, borderaxespad=0)
