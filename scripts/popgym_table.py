"""Makes results/memory/popgym/: returns on POPGym's tasks, and their sums.

decision-rnn compare --config configs/comparisons/popgym.yaml --output runs/popgym
decision-rnn compare --config configs/comparisons/popgym-actions.yaml --output runs/popgym-actions
python scripts/popgym_table.py runs/popgym runs/popgym-actions
"""

import argparse
from pathlib import Path

import pandas as pd
from results_folder import RESULTS, read_trials, source, table, write_report

from decision_rnn import read_comparison

FOLDER = RESULTS / "memory" / "popgym"
CSV = FOLDER / "returns.csv"
CONTROL = "cartpole|pendulum"
"""The names of tasks of control; the others are puzzles."""


def cells(returns: pd.DataFrame, columns: list[str], total: bool) -> list[str]:
    """Of each column the mean return over datasets, or their sum, averaged over seeds, with its range over seeds."""
    grouped = returns.groupby(["agent", "seed"])["return"]
    seeds = (grouped.sum() if total else grouped.mean()).groupby("agent").agg(["mean", "min", "max"]).round(2)
    ranges = [
        f" ({low:g} to {high:g})" if high > low else "" for low, high in seeds.loc[columns, ["min", "max"]].values
    ]
    return [f"{mean:g}{ends}" for mean, ends in zip(seeds.loc[columns, "mean"], ranges, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparisons", type=Path, nargs="+", help="folders of the comparisons, or of their seeds")
    folders = parser.parse_args().comparisons
    comparisons = [read_comparison(folder) for folder in folders]
    trials, sentence = read_trials(folders)
    rows = [(trial.dataset, trial.variant, trial.seed, trial.targets[0].return_mean) for trial in trials.values()]
    specs = {entry.data.name: entry.data for comparison in comparisons for entry in comparison.datasets}
    for name, spec in specs.items():
        rows += [(name, "random", 0, spec.reference_min), (name, "reference", 0, spec.reference_max)]
    returns = pd.DataFrame(rows, columns=["dataset", "agent", "seed", "return"])
    FOLDER.mkdir(parents=True, exist_ok=True)
    returns.to_csv(CSV, index=False)
    columns = [*comparisons[0].names, "random", "reference"]
    task = returns["dataset"].str.removeprefix("memory/").str.rsplit("-", n=1).str[0]
    lines = [[name, *cells(part, columns, total=False)] for name, part in returns.groupby(task)]
    control = returns["dataset"].str.contains(CONTROL)
    for name, part in (("puzzles", returns[~control]), ("control", returns[control]), ("all", returns)):
        lines.append([f"sum of {part['dataset'].nunique()}: {name}", *cells(part, columns, total=True)])
    head = ["task", *(comparisons[0].names.get(column, column) for column in columns)]
    first = next(iter(trials.values())).targets[0]
    text = [
        "# POPGym",
        "Behaviour cloning of scripted experts. Mean return over the three levels of each task, and sums over tasks "
        f"and levels: mean over seeds and their range, {len(first.returns)} episodes a seed. Random: the mean of "
        "random actions. Reference: the highest return, that of an optimal controller, or that of the expert "
        "([datasets](../../../docs/datasets.md#memory-tasks)). Published sums are of other data and of 48 levels.",
        f"{table(head, lines)}\n\n{source(CSV, [])}",
    ]
    write_report(FOLDER / "README.md", "\n\n".join(text), sentence)


if __name__ == "__main__":
    main()
