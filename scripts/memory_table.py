"""Makes results/memory/tmaze/: accuracy of every backbone by corridor length.

    decision-rnn compare --config configs/comparisons/memory-tmaze.yaml --output runs/memory-tmaze
    python scripts/memory_table.py runs/memory-tmaze
    python scripts/memory_table.py    # only draws the picture again, from memory-tmaze.csv

With --long, results/memory/tmaze-long/: corridors of up to a million steps, played by exported policies, which are
several times as fast. A longer corridor is only played by agents that have 100% in the shorter one.

    decision-rnn compare --config configs/comparisons/memory-tmaze-long.yaml --output runs/memory-tmaze-long
    python scripts/memory_table.py runs/memory-tmaze-long --long

Agents play corridors much longer than those of their data, conditioned on a return of 1 and of 0. Conditioning accuracy
is the percentage of episodes that succeed when conditioned on 1 and fail when conditioned on 0: about 50 for an agent
that ignores the cue. Results are stored in the folders of the runs: the same command continues where it was
interrupted.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from results_folder import RESULTS, read_trials, source, table, with_range, write_report

from decision_rnn import Run
from decision_rnn.comparison.record import Trial
from decision_rnn.deploy import export_onnx, load_policy
from decision_rnn.evaluation.actor import ExportedPolicy
from decision_rnn.evaluation.evaluate import evaluate_once
from decision_rnn.runs.checkpoint import TrainedAgent

LENGTHS = (9, 30, 90, 270, 900, 2_700, 9_600)
LONG_LENGTHS = (30, 9_600, 100_000, 1_000_000)
LONGEST_TRAINED = 30
EPISODES, LONG_EPISODES = 50, 32
"""Episodes of every length for each of the two targets."""
LEARNT = 95.0
"""Accuracy at the training lengths from which a row shows memory rather than training."""
FOLDER, LONG_FOLDER = RESULTS / "memory" / "tmaze", RESULTS / "memory" / "tmaze-long"
CSV, PICTURE = FOLDER / "memory-tmaze.csv", FOLDER / "memory-tmaze.png"
LONG_CSV = LONG_FOLDER / "memory-tmaze-long.csv"
NAMES = {"aaren": "aaren", "gru": "GRU", "mingru": "minGRU", "lstm": "LSTM", "mamba": "Mamba", "lru": "LRU",
         "s4d": "S4D", "transformer": "transformer", "mlp": "MLP"}  # fmt: skip
"""Rows of the picture and their labels."""


def measure(trials: Mapping[Path, Trial], lengths: Sequence[int], episodes: int, long: bool) -> pd.DataFrame:
    """Accuracy of trials, by the folders of their runs, and corridor length. With `long`, exported policies play, and
    agents that have less than 100% do not play longer corridors."""
    rows, failed = list[tuple[str, int, int, float]](), set[Path]()
    for length in lengths:
        for path, trial in trials.items():
            if path in failed:
                continue
            run = Run(path)
            accuracy = conditioning_accuracy(run, exported(run) if long else run.agent, length, episodes)
            rows.append((trial.variant, trial.seed, length, accuracy))
            print(*rows[-1], flush=True)
            if long and accuracy < 100:
                failed.add(path)
    return pd.DataFrame(rows, columns=["backbone", "seed", "steps", "accuracy_percent"])


def exported(run: Run) -> ExportedPolicy:
    """The policy that a run's agent is exported as."""
    with tempfile.TemporaryDirectory() as folder:
        export_onnx(run.agent, path := Path(folder) / "policy.onnx")
        return load_policy(path)


def conditioning_accuracy(run: Run, policy: TrainedAgent | ExportedPolicy, length: int, episodes: int) -> float:
    """Percentage of episodes that succeed when conditioned on success and fail when conditioned on failure."""
    environment_id = f"decision_rnn/TMaze-{length}-v0"
    settings = replace(
        run.config.evaluation, episodes=episodes, target_returns=(1.0, 0.0), environment_id=environment_id
    )
    success, failure = evaluate_once(run.folder, policy, settings).targets
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
        learnt = summary["mean"].loc[name, LONGEST_TRAINED] >= LEARNT
        statistics = zip(*(summary[statistic].loc[name] for statistic in ("mean", "min", "max")), strict=True)
        rows.append([name if learnt else f"{name}*", *(with_range(*values) for values in statistics)])
    lengths = [f"{length:,}" for length in LENGTHS]
    return f"{table(['backbone', *lengths], rows)}\n\n{source(CSV, lengths)}"


def long_markdown(accuracy: pd.DataFrame, states: Mapping[str, int]) -> str:
    """Table of the number of seeds with 100% by corridor length, of the accuracy at `LONG_LENGTHS[1]`, which all play,
    and of the size of the state."""
    perfect = accuracy[accuracy["accuracy_percent"] == 100].pivot_table("seed", "backbone", "steps", "count", 0)
    seeds = accuracy.groupby("backbone")["seed"].nunique()
    by_all = accuracy[accuracy["steps"] == LONG_LENGTHS[1]].groupby("backbone")["accuracy_percent"]
    ends = by_all.agg(["mean", "min", "max"])
    rows = []
    for name in ends.join(perfect).sort_values([*reversed(LONG_LENGTHS), "mean"], ascending=False).index:
        counts = [f"{perfect.loc[name, length]:.0f} of {seeds[name]}" for length in LONG_LENGTHS]
        rows.append([name, *counts, with_range(*ends.loc[name]), str(states[name])])
    head = [f"{length:,}" for length in LONG_LENGTHS]
    return table(["backbone", *head, f"accuracy at {LONG_LENGTHS[1]:,}", "state, bytes"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparisons", type=Path, nargs="*", help="folders of the comparison, or of its seeds")
    parser.add_argument("--long", action="store_true", help="corridors of up to a million steps")
    arguments = parser.parse_args()
    folders, long = arguments.comparisons, arguments.long
    if not folders:
        return draw(summarise(pd.read_csv(CSV)))
    trials, sentence = read_trials(folders)
    lengths, episodes, csv = (LONG_LENGTHS, LONG_EPISODES, LONG_CSV) if long else (LENGTHS, EPISODES, CSV)
    accuracy = measure(trials, lengths, episodes, long)
    csv.parent.mkdir(parents=True, exist_ok=True)
    accuracy.to_csv(csv, index=False)
    how = (
        "Trained on memory/tmaze-30. Accuracy: percentage of episodes that succeed when conditioned on 1 and fail when "
        f"conditioned on 0, {episodes} episodes each way in the same corridors, mean over seeds and their range; about "
        "50 for an agent that ignores the cue."
    )
    if long:
        states = {trial.variant: trial.state_bytes for trial in trials.values()}
        text = [
            "# T-Maze, up to a million steps",
            f"Seeds with an accuracy of 100%, by corridor length. {how} A longer corridor is only played by agents "
            "that have 100% in the shorter one. The policies are exported.",
            long_markdown(accuracy, states),
        ]
    else:
        draw(summary := summarise(accuracy))
        text = [
            "# T-Maze",
            "![T-Maze accuracy by corridor length](memory-tmaze.png)",
            f"{how} *: below {LEARNT:.0f} at the training lengths, so the row is not about memory.",
            markdown(summary),
        ]
    write_report(csv.parent / "README.md", "\n\n".join(text), sentence)


if __name__ == "__main__":
    main()
