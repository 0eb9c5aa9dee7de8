"""The files of a comparison: comparison.json for programs, episodes.csv for statistics, comparison.md for people."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

from decision_rnn.comparison.record import Comparison
from decision_rnn.comparison.report.markdown import format_comparison
from decision_rnn.errors import InputError
from decision_rnn.files import write_atomically

COLUMNS = ("variant", "dataset", "seed", "target_return", "role", "in_range", "episode", "return", "score")
"""Columns of episodes.csv, which has a row for every episode of the last checkpoints."""


def write_comparison(output: Path, comparison: Comparison) -> None:
    """Write comparison.json, episodes.csv and comparison.md; InputError if that fails."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows(_episodes(comparison))
    files = {
        "comparison.json": json.dumps(comparison.to_dict(), separators=(",", ":")) + "\n",
        "episodes.csv": text.getvalue(),
        "comparison.md": format_comparison(comparison) + "\n",
    }
    try:
        for name, content in files.items():
            write_atomically(output / name, content.encode())
    except OSError as error:
        raise InputError(f"cannot write the comparison into {output}: {error.strerror}") from None


def _episodes(comparison: Comparison) -> Iterator[tuple[object, ...]]:
    """Rows in long form: one for each variant, dataset, seed, target and episode."""
    datasets = {dataset.data.name: dataset for dataset in comparison.datasets}
    for trial in comparison.trials:
        dataset = datasets[trial.dataset]
        for target, achieved in dataset.with_results(trial):
            for number, value in enumerate(achieved.returns):
                score = round(float(dataset.data.normalised(value)), 4)
                named = (target.target_return, "+".join(target.roles), target.in_range)
                yield (trial.variant, trial.dataset, trial.seed, *named, number, value, score)
