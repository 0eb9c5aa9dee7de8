"""Makes score-over-time.png in a folder of results/, and prints after how long a training the scores stay good.

    decision-rnn compare --config configs/comparisons/score-over-time.yaml --output runs/score-over-time
    cp runs/score-over-time/comparison.json results/score-over-time
    python scripts/score_over_time.py results/score-over-time

The checkpoints' scores at the comparison's first target, over the seconds of training without evaluation: a line for
the mean over seeds, a dot per seed.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from decision_rnn.comparison.record import read_comparison
from decision_rnn.comparison.summary import VariantSummary, summarise

COLOURS = "#1f4e8c", "#c26a1b", "#5a8f3c", "#7a4a8c"


def curve(summary: VariantSummary) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of training at the checkpoints, the mean over seeds, and their scores, (seeds, checkpoints)."""
    per_step = np.mean([trial.training_seconds / trial.step for trial in summary.trials])
    return per_step * np.array(summary.steps), summary.curves[summary.targets[0].target]


def describe(summary: VariantSummary, good: float) -> str:
    """One row of the printed table: from when on the mean is good, and what it is at last."""
    seconds, scores = curve(summary)
    mean = scores.mean(axis=0)
    reached = len(mean) - int(np.argmin([*(mean >= good)[::-1], False]))
    when = f"{seconds[reached]:,.0f} s" if reached < len(mean) else f"not in {seconds[-1]:,.0f} s"
    return f"| {summary.variant} | {when} | {mean[-1]:.1f} after {summary.steps[-1]:,} steps, {seconds[-1]:,.0f} s |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder that holds comparison.json; the picture goes there too")
    parser.add_argument("--score", type=float, default=70, help="the normalised score that is good (default: 70)")
    options = parser.parse_args()
    found = [summary for summary in summarise(read_comparison(options.folder)) if summary.curves]
    print(f"| | mean of the seeds at {options.score:g} or more from then on | last |\n| --- | --- | --- |")
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.axhline(options.score, color="0.6", linestyle="--", linewidth=1)
    for summary, colour in zip(found, COLOURS, strict=False):
        print(describe(summary, options.score))
        seconds, scores = curve(summary)
        for of_seed in scores:
            axes.plot(seconds, of_seed, ".", color=colour, markersize=4, alpha=0.5)
        axes.plot(seconds, scores.mean(axis=0), color=colour, label=summary.variant)
    axes.set(xscale="log", xlabel="seconds of training on one core", ylabel="normalised score", ylim=(0, None))
    axes.xaxis.set_major_formatter(LogFormatter())
    axes.xaxis.set_minor_formatter(LogFormatter())
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(options.folder / "score-over-time.png", dpi=130)


if __name__ == "__main__":
    main()
