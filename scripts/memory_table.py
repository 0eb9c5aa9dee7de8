"""Makes results/memory/tmaze/: success of every backbone by corridor length.

    decision-rnn compare --config configs/comparisons/memory-tmaze.yaml --output runs/memory-tmaze
    python scripts/memory_table.py runs/memory-tmaze
    python scripts/memory_table.py    # only draws the picture again, from memory-tmaze.csv

Agents play corridors much longer than those of their data, conditioned on a return of 1 and of 0. Conditioning accuracy
is the percentage of episodes that succeed when conditioned on 1 and fail when conditioned on 0: 50 by chance.
"""

import argparse
import csv
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from results_folder import RESULTS, Made, table, write_report

from decision_rnn import Run, read_comparison

LENGTHS = (9, 30, 90, 270, 900, 2_700, 9_600)
EPISODES = 50
"""Episodes of every length for each of the two targets."""
LEARNT = 95.0
"""Accuracy at the training lengths from which a row shows memory rather than training."""
FOLDER = RESULTS / "memory" / "tmaze"
NAMES = {"gru": "GRU", "lstm": "LSTM", "mingru": "minGRU", "mlstm": "mLSTM", "lru": "LRU", "s4d": "S4D",
         "transformer": "transformer", "mlp": "MLP"}  # fmt: skip
"""Rows of the picture and their labels."""
Accuracy = dict[str, dict[int, list[float]]]
"""Percentages by backbone and corridor length, one per seed."""


def conditioning_accuracy(run: Run, length: int) -> float:
    """Percentage of episodes that succeed when conditioned on success and fail when conditioned on failure."""
    environment_id = f"decision_rnn/TMaze-{length}-v0"
    success, failure = run.evaluate([1, 0], episodes=EPISODES, environment_id=environment_id, progress=False).targets
    return (success.score_mean + 100 - failure.score_mean) / 2


def write_csv(accuracy: Accuracy, path: Path) -> None:
    """Write one row for each backbone, seed and length."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["backbone", "seed", "steps", "accuracy_percent"])
        for name, lengths in accuracy.items():
            for length, values in lengths.items():
                writer.writerows([name, seed, length, value] for seed, value in enumerate(values))


def read_csv(path: Path) -> Accuracy:
    """Read what `write_csv` wrote."""
    accuracy: Accuracy = {}
    with path.store as file:
        for row in csv.DictReader(file):
            values = accuracy.setdefault(row["backbone"], {}).setdefault(int(row["steps"]), [])
            values.append(float(row["accuracy_percent"]))
    return accuracy


def draw(accuracy: Accuracy, longest_trained: int, path: Path) -> None:
    """Heat map of eight backbones; those that have not learnt the training lengths are marked."""
    names = [name for name in NAMES if name in accuracy]
    means = np.array([[statistics.fmean(accuracy[name][length]) for length in LENGTHS] for name in names])
    figure, axis = plt.subplots(figsize=(8.5, 3.9), layout="constrained")
    axis.imshow(means, cmap="Blues", vmin=50, vmax=110, aspect="auto")
    for (row, column), mean in np.ndenumerate(means):
        values = accuracy[names[row]][LENGTHS[column]]
        text = f"{mean:.0f}" + (f"\n{min(values):.0f}-{max(values):.0f}" if max(values) - min(values) >= 1 else "")
        axis.text(column, row, text, ha="center", va="center", fontsize=8.5, color="white" if mean > 88 else "black")
    trained = LENGTHS.index(longest_trained)
    labels = [NAMES[name] + "" if means[i, trained] >= LEARNT or name == "mlp" else f"{NAMES[name]}*"
              for i, name in enumerate(names)]  # fmt: skip
    axis.set_yticks(range(len(names)), labels)
    axis.set_xticks(range(len(LENGTHS)), [f"{length:,}" for length in LENGTHS])
    axis.axvline(trained + 0.5, color="#333333", linewidth=1.5)
    axis.text(trained + 0.47, -0.62, "training lengths", ha="right", fontsize=8.5)
    axis.set_xlabel("corridor length, steps        * has not learnt the training lengths")
    axis.set_title("T-Maze success rate (%, chance 50), mean and range over seeds", loc="left", fontsize=10.5, pad=18)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    figure.savefig(path, dpi=150)


def markdown(accuracy: Accuracy) -> str:
    """Table of means over seeds, with the range in brackets where seeds differ."""

    def cell(values: Sequence[float]) -> str:
        mean = f"{statistics.fmean(values):.0f}"
        return mean if max(values) - min(values) < 1 else f"{mean} ({min(values):.0f} to {max(values):.0f})"

    def key(item: tuple[str, Mapping[int, list[float]]]) -> float:
        return -sum(statistics.fmean(values) for values in item[1].values())

    rows = [
        [name, *(cell(values) for values in lengths.values())] for name, lengths in sorted(accuracy.items(), key=key)
    ]
    return table(["backbone", *(f"{length:,}" for length in LENGTHS)], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", type=Path, nargs="?", help="folder of the comparison")
    folder = parser.parse_args().comparison
    if folder is None:
        return draw(read_csv(FOLDER / "memory-tmaze.csv"), 30, FOLDER / "memory-tmaze.png")
    comparison = read_comparison(folder)
    made = Made.from_trials(comparison.trials)
    accuracy: Accuracy = {}
    for trial in comparison.trials:
        lengths = accuracy.setdefault(trial.variant, {length: [] for length in LENGTHS})
        for length in LENGTHS:
            lengths[length].append(conditioning_accuracy(Run(folder / trial.run), length))
        print(trial.variant, trial.seed, *(f"{values[-1]:.0f}" for values in lengths.values()), flush=True)
    write_csv(accuracy, FOLDER / "memory-tmaze.csv")
    draw(accuracy, 30, FOLDER / "memory-tmaze.png")
    text = [
        "# T-Maze",
        "![T-Maze success rate by corridor length](memory-tmaze.png)",
        "Trained on memory/tmaze-30; percentage of episodes that succeed when conditioned on 1 and fail when "
        f"conditioned on 0, {EPISODES} episodes each way, mean over seeds and their range. Below {LEARNT:.0f} "
        "at the training lengths a backbone has not learnt the task in so short a training.",
        markdown(accuracy),
    ]
    write_report(FOLDER / "README.md", "\n\n".join(text), made)


if __name__ == "__main__":
    main()
