"""Makes results/memory/popgym/: returns on POPGym's tasks, and their sums.

decision-rnn compare --config configs/comparisons/popgym.yaml --output runs/popgym
decision-rnn compare --config configs/comparisons/popgym-actions.yaml --output runs/popgym-actions
python scripts/popgym_table.py runs/popgym runs/popgym-actions
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from results_folder import RESULTS, read_trials, source, table, with_range, write_report

from decision_rnn import open_dataset, read_comparison
from decision_rnn.data.sources.memory import POPGYM

FOLDER = RESULTS / "memory" / "popgym"
RETURNS, SUMMARY = FOLDER / "returns.csv", FOLDER / "summary.csv"
CONTROL = "cartpole|pendulum"
"""The names of tasks of control; the others are puzzles."""


def summarise(returns: pd.DataFrame) -> pd.DataFrame:
    """Means over the levels of each task, and sums over tasks and levels, with columns `task`, `agent`, `seed` and
    `return`."""
    control = returns["dataset"].str.contains(CONTROL)
    parts = {"puzzles": returns[~control], "control": returns[control], "all": returns}
    task = returns["dataset"].str.removeprefix("memory/").str.rsplit("-", n=1).str[0].map(lambda kind: POPGYM[kind][0])
    tables = {name: part.groupby(["agent", "seed"])["return"].mean() for name, part in returns.groupby(task)}
    for name, part in parts.items():
        label = f"sum of {part['dataset'].nunique()}, {name}"
        tables[label] = part.groupby(["agent", "seed"])["return"].sum()
    return pd.concat(tables, names=["task"]).reset_index()


def expert_share(dataset: str) -> float:
    """The expert's own episodes, those with an even index, in the half with the highest returns, in percent."""
    returns = open_dataset(dataset).store.episode_returns
    best = np.argsort(-returns, kind="stable")[: len(returns) // 2]
    return 100 * (best % 2 == 0).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparisons", type=Path, nargs="+", help="folders of the comparisons, or of their seeds")
    folders = parser.parse_args().comparisons
    comparisons = [read_comparison(folder) for folder in folders]
    names = {label: name for comparison in comparisons for label, name in comparison.names.items()}
    trials, sentence = read_trials(folders)
    rows = [
        (trial.dataset, names[trial.variant], trial.seed, trial.targets[0].return_mean) for trial in trials.values()
    ]
    specs = {entry.data.name: entry.data for comparison in comparisons for entry in comparison.datasets}
    for name, spec in specs.items():
        rows += [(name, "random", 0, spec.reference_min), (name, "reference", 0, spec.reference_max)]
    returns = pd.DataFrame(rows, columns=["dataset", "agent", "seed", "return"])
    summary = summarise(returns)
    FOLDER.mkdir(parents=True, exist_ok=True)
    returns.to_csv(RETURNS, index=False)
    summary.to_csv(SUMMARY, index=False)
    statistics = summary.groupby(["task", "agent"], sort=False)["return"].agg(["mean", "min", "max"])
    cells = statistics.apply(lambda row: with_range(*row, decimals=2), axis=1).unstack("agent")
    columns = [*(names[variant.label] for variant in comparisons[0].variants), "random", "reference"]
    lines = [[task, *row] for task, row in zip(cells.index, cells[columns].to_numpy().tolist(), strict=True)]
    first, shares = next(iter(trials.values())).targets[0], [expert_share(name) for name in specs]
    text = [
        "# POPGym",
        "One setting for all tasks, except that agents of Battleship, Concentration, MineSweeper and MultiarmedBandit "
        "read their previous action, and that the transformer has a lower learning rate. "
        f"Behaviour cloning of the half of the episodes with the highest returns: {min(shares):.0f} to "
        f"{max(shares):.0f}% of these, depending on the task, are a scripted expert's own, the others have random "
        "actions among them. Mean return over the three levels of each task, and sums over tasks and levels: mean over "
        f"seeds and their range, {len(first.returns)} episodes a seed. Random: the mean of random actions. Reference: "
        "the highest return, that of an optimal controller, or that of the expert "
        "([datasets](../../../docs/datasets.md#memory-tasks)). Published sums are of other data and of 48 levels. "
        f"Returns by level: [{RETURNS.name}]({RETURNS.name}).",
        f"{table(['task', *columns], lines)}\n\n{source(SUMMARY, [])}",
    ]
    write_report(FOLDER / "README.md", "\n\n".join(text), sentence)


if __name__ == "__main__":
    main()
