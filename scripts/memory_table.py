"""Makes results/memory/tmaze/: accuracy of every backbone by corridor length.

    decision-rnn compare --config configs/comparisons/memory-tmaze.yaml --output runs/memory-tmaze
    python scripts/memory_table.py runs/memory-tmaze
    python scripts/memory_table.py    # only draws the picture again, from memory-tmaze.csv

Agents play corridors much longer than those of their data, conditioned on a return of 1 and of 0. Conditioning accuracy
is the percentage of episodes that succeed when conditioned on 1 and fail when conditioned on 0: 50 by chance. Results
are stored in the folders of the runs: the same command continues where it was interrupted.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from results_folder import RESULTS, provenance, source, table, with_range, write_report

from decision_rnn import Run, read_comparison
from decision_rnn.evaluation.evaluate import evaluate_once

LENGTHS = (9, 30, 90, 270, 900, 2_700, 9_600)
LONGEST_TRAINED = 30
EPISODES = 50
"""Episodes of every length for each of the two targets."""
LEARNT = 95.0
"""Accuracy at the training lengths from which a row shows memory rather than training."""
FOLDER = RESULTS / "memory" / "tmaze"
CSV, PICTURE = FOLDER / "memory-tmaze.csv", FOLDER / "memory-tmaze.png"
NAMES = {"aaren": "aaren", "gru": "GRU", "mingru": "minGRU", "lstm": "LSTM", "mamba": "Mamba", "lru": "LRU",
         "s4d": "S4D", "transformer": "transformer", "mlp": "MLP"}  # fmt: skip
"""Rows of the picture and their labels."""


def conditioning_accuracy(run: Run, length: int) -> float:
    """Percentage of episodes that succeed when conditioned on success and fail when conditioned on failure."""
    environment_id = f"decision_rnn/TMaze-{length}-v0"
    settings = replace(
        run.config.evaluation, episodes=EPISODES, target_returns=(1.0, 0.0), environment_id=environment_id
    )
    success, failure = evaluate_once(run.folder, run.agent, settings).targets
    return (success.score_mean + 100 - failure.score_mean) / 2


def summarise(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Mean, lowest and highest percentage over seeds: rows are backbones, columns statistics and corridor lengths."""
    grouped = accuracy.groupby(["backbone", "steps"])["accuracy_percent"]
    return grouped.agg(["mean", "min", "max"]).unstack("steps")


def draw(summary: pd.DataFrame) -> None:
    """Heat map of eight backbones and an MLP; those that have not learnt the training lengths are marked."""
    summary = summary.loc[[name for name in NAMES if name in summary.index]]
    figure, axis = plt.subplots(figsize=(8.5, 3.9), layout="constrained")
    axis.imshow(summary["mean"], cmap="Blues", vmin=50, vmax=110, aspect="auto")
    for (row, column), mean in np.ndenumerate(summary["mean"]):
        low, high = (summary[end].iloc[row, column] for end in ("min", "max"))
        text = f"{mean:.0f}" + (f"\n{low:.0f}-{high:.0f}" if high - low >= 1 else "")
        axis.text(column, row, text, ha="center", va="center", fontsize=8.5, color="white" if mean > 88 else "black")
    learnt = summary["mean"][LONGEST_TRAINED] >= LEARNT
    axis.set_yticks(
        range(len(summary)), [NAMES[name] + "*" * (not learnt[name] and name != "mlp") for name in summary.index]
    )
    axis.set_xticks(range(len(LENGTHS)), [f"{length:,}" for length in LENGTHS])
    trained = LENGTHS.index(LONGEST_TRAINED)
    axis.axvline(trained + 0.5, color="#333333", linewidth=1.5)
    axis.text(trained + 0.47, -0.62, "training lengths", ha="right", fontsize=8.5)
    axis.set_xlabel("corridor length, steps        * has not learnt the training lengths")
    axis.set_title("T-Maze accuracy (%, chance 50), mean and range over seeds", loc="left", fontsize=10.5, pad=18)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    figure.savefig(PICTURE, dpi=150)


def markdown(summary: pd.DataFrame) -> str:
    """Table of means over seeds, with the range in brackets where seeds differ."""
    rows = []
    for name in summary["mean"].sum(axis=1).sort_values(ascending=False, kind="stable").index:
        means, lows, highs = (summary[statistic].loc[name] for statistic in ("mean", "min", "max"))
        cells = map(with_range, means, lows, highs)
        learnt = means[LONGEST_TRAINED] >= LEARNT
        rows.append([name if learnt else f"{name}*", *cells])
    lengths = [f"{length:,}" for length in LENGTHS]
    return f"{table(['backbone', *lengths], rows)}\n\n{source(CSV, lengths)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", type=Path, nargs="?", help="folder of the comparison")
    folder = parser.parse_args().comparison
    if folder is None:
        return draw(summarise(pd.read_csv(CSV)))
    trials = read_comparison(folder).trials
    commits = ", ".join(dict.fromkeys(trial.commit or "unknown" for trial in trials))
    seeds = sorted({trial.seed for trial in trials})
    sentence = provenance(seeds, notes=f"the agents were made at commit {commits}")
    rows = []
    for trial in trials:
        run = Run(folder / trial.run)
        for length in LENGTHS:
            rows.append((trial.variant, trial.seed, length, conditioning_accuracy(run, length)))
            print(*rows[-1], flush=True)
    accuracy = pd.DataFrame(rows, columns=["backbone", "seed", "steps", "accuracy_percent"])
    accuracy.to_csv(CSV, index=False)
    summary = summarise(accuracy)
    draw(summary)
    text = [
        "# T-Maze",
        "![T-Maze accuracy by corridor length](memory-tmaze.png)",
        "Trained on memory/tmaze-30. Accuracy: percentage of episodes that succeed when conditioned on 1 and fail when "
        f"conditioned on 0, {EPISODES} episodes each way, mean over seeds and their range; 50 by chance. *: below "
        f"{LEARNT:.0f} at the training lengths, so the row is not about memory.",
        markdown(summary),
    ]
    write_report(FOLDER / "README.md", "\n\n".join(text), sentence)


if __name__ == "__main__":
    main()
