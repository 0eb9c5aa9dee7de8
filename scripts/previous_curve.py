"""Makes results/memory-repeat-previous/: how well every backbone says the k-th last card, over k.

    decision-rnn compare --config configs/comparisons/memory-repeat-previous.yaml --output runs/memory-repeat-previous
    python scripts/previous_curve.py runs/memory-repeat-previous

In `memory/repeat-previous-K` all of the last K cards must be held at every step, in order: the score falls at the K
that a state of this size, trained for so many steps, can no longer hold.
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib import pyplot as plt
from memory_table import Cost, cost, spread
from results_folder import RESULTS, Made, table, write_csv, write_report

from decision_rnn.comparison.record import Comparison, read_comparison
from decision_rnn.utils.plots import save_figure

HELD = 90.0
"""The score from which a k counts as held."""
LINE, OTHERS, DARK = "#1f5a86", "#d5dbe0", "#333333"
COLUMNS = 5


class Row(NamedTuple):
    """A backbone: its scores by k and seed, and its cost."""

    name: str
    scores: dict[int, list[float]]
    cost: Cost

    @property
    def means(self) -> dict[int, float]:
        return {k: statistics.fmean(scores) for k, scores in self.scores.items()}

    @property
    def holds(self) -> int:
        """The largest k up to which the mean over seeds is a score of HELD; 0 if none."""
        found = 0
        for k, mean in sorted(self.means.items()):
            if mean < HELD:
                break
            found = k
        return found


def collect(comparison: Comparison) -> list[Row]:
    """The rows, those that hold most first."""
    names = sorted((dataset.data.name for dataset in comparison.datasets), key=k_of)
    rows = []
    for variant in comparison.variants:
        trials = {k_of(name): comparison.trials_of(variant.label, name) for name in names}
        scores = {k: [trial.targets[0].score_mean for trial in found] for k, found in trials.items()}
        rows.append(Row(variant.label, scores, cost([trial for found in trials.values() for trial in found])))
    return sorted(rows, key=lambda row: (-row.holds, -sum(row.means.values())))


def k_of(name: str) -> int:
    """The K of `memory/repeat-previous-K`."""
    return int(name.rpartition("-")[2])


def draw(rows: Sequence[Row], path: Path) -> None:
    """A panel for every backbone: its curve before those of the others."""
    lines = -(-len(rows) // COLUMNS)
    figure, panels = plt.subplots(
        lines, COLUMNS, figsize=(11, 0.5 + 2 * lines), sharex=True, sharey=True, layout="constrained"
    )
    for panel, row in zip(panels.flat, rows, strict=False):
        for other in rows:
            panel.plot(list(other.means), list(other.means.values()), color=OTHERS, linewidth=1)
        for seed in zip(*row.scores.values(), strict=True):
            panel.plot(list(row.scores), seed, "o", color=LINE, markersize=2.5)
        panel.plot(list(row.means), list(row.means.values()), color=LINE, linewidth=2)
        panel.set_title(f"{row.name}: {row.cost.state_bytes:,} bytes", loc="left", fontsize=10.5, color=DARK)
        panel.set_xscale("log", base=2)
        panel.set_xticks(list(row.means), [str(k) for k in row.means])
        panel.set_yticks([0, 50, 100])
        panel.set_ylim(-12, 108)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels.flat[len(rows) :]:
        panel.set_visible(False)
    figure.supxlabel("k: the card that must be said is the k-th last", fontsize=10.5)
    figure.supylabel("score (guessing: 0, all cards: 100)", fontsize=10.5)
    save_figure(figure, path)


def markdown(rows: Sequence[Row]) -> str:
    """The table of the report."""
    head = ["backbone", *(f"k = {k}" for k in rows[0].scores), "state, bytes", "µs a step", "parameters"]
    lines = []
    for row in rows:
        costs = [f"{row.cost.state_bytes:,}", f"{row.cost.microseconds:.0f}", f"{row.cost.parameters:,}"]
        lines.append([row.name, *map(spread, row.scores.values()), *costs])
    return table(head, lines)


def report(comparison: Comparison, rows: Sequence[Row]) -> str:
    """The report, without how it was made."""
    config, seeds, most = comparison.variants[0].config, len(comparison.seeds), max(rows[0].scores)
    training, episodes = config["training"], config["evaluation"]["episodes"]
    return "\n\n".join(
        [
            "# How many cards each backbone holds: RepeatPrevious over k",
            "![Score over k, a panel for every backbone](memory-repeat-previous.png)",
            "POPGym's RepeatPrevious deals one card at a time, of which the suit is seen, and asks for that of the "
            "k-th last, the present one being the last: at k = 1 nothing must be remembered, and at every larger k the "
            f"last k cards, in order, at all times. The score is 0 for guessing and 100 for all cards, of {episodes} "
            f"episodes; {'one seed' if seeds == 1 else f'the mean over {seeds} seeds, and in brackets their range'}. "
            f"Trained by cloning the better half of the data, the expert's own episodes, for {training['steps']:,} "
            f"steps on batches of {training['batch_size']} slices of {training['context']} steps that begin with an "
            "episode; about as many parameters for every backbone "
            "(configs/comparisons/memory-repeat-previous.yaml).",
            "The curves show what was learnt in so short a training. No state is too small for it: "
            f"{most} cards of four suits are {2 * most} bits, {most // 4} bytes. Only the convolution cannot do more: "
            "its two layers see the last 11 steps.",
            markdown(rows),
            "A step is one action in one environment on one thread: the least over k and seeds, beside other work.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", type=Path, help="the folder of the comparison")
    comparison = read_comparison(parser.parse_args().comparison)
    made = Made.from_trials(comparison.trials, packages=["popgym"])
    rows, output = collect(comparison), RESULTS / "memory-repeat-previous"
    draw(rows, output / "memory-repeat-previous.png")
    lines = [
        [row.name, k, seed, f"{score:.2f}"]
        for row in rows
        for k, scores in row.scores.items()
        for seed, score in zip(comparison.seeds, scores, strict=True)
    ]
    write_csv(output / "memory-repeat-previous.csv", ["backbone", "k", "seed", "score"], lines)
    write_report(output / "README.md", report(comparison, rows), made)


if __name__ == "__main__":
    main()
