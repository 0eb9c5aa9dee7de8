"""A comparison's results: its tables, and the files of its folder.

comparison.json    the record: every run's measurements
comparison.md      tables
scores.svg         a picture of the scores
DATASET/VARIANT-seedN/    the runs
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decision_rnn.comparison import figures, summary, tables
from decision_rnn.comparison.record import Record
from decision_rnn.utils.errors import cannot_write
from decision_rnn.utils.files import write_atomically
from decision_rnn.utils.records import read_file, to_json

SCHEMA = 4
"""Version of comparison.json."""


@dataclass(frozen=True, kw_only=True)
class Comparison(Record):
    """The results of a comparison; `print(comparison)` shows its tables in Markdown."""

    def table(self) -> list[dict[str, Any]]:
        """A row for every variant at every target of every dataset.

        `score` is the mean over the `seeds` that finished; `failed` is the number of those that did not. `low` and
        `high` are its 95% interval or, with fewer than five seeds or failed runs, the range (`spread`). `difference`
        is from the variant `reference`, with Welch's 95% interval; `p_value` is adjusted over the variants and
        `significant` is whether it is below 5%; these are None where nothing was tested. Every metric has its own
        columns, such as `success`, `success_low` and `success_high`. Where nothing is played, `held_out_loss` or
        `held_out_squared_error` take the place of target and score.
        """
        return summary.rows(self)

    def episode_table(self) -> list[dict[str, Any]]:
        """A row for every episode of the last checkpoints."""
        return summary.episode_rows(self)

    def to_dataframe(self, episodes: bool = False) -> Any:
        """`table`, or `episode_table`, as a `pandas.DataFrame`."""
        import pandas

        return pandas.DataFrame(self.episode_table() if episodes else self.table())

    def __str__(self) -> str:
        return tables.render("comparison.md", self)


def read_comparison(path: Path | str) -> Comparison:
    """Read a comparison.

    Args:
        path: The folder that `compare` wrote, or its comparison.json.

    Raises:
        InputError: If there is none, or of another version.
    """
    file = Path(path) / "comparison.json" if Path(path).is_dir() else Path(path)
    return read_file(file, Comparison, "name the folder of a comparison, or run its command again", SCHEMA)


def write_comparison(folder: Path, comparison: Comparison) -> None:
    """Write comparison.json, comparison.md and scores.svg; raises InputError or EnvironmentFailure."""
    record = json.dumps({"schema": SCHEMA, **to_json(comparison)}, separators=(",", ":"))
    try:
        write_atomically(folder / "scores.svg", figures.scores_file(comparison).encode())
        write_atomically(folder / "comparison.md", f"![Scores](scores.svg)\n\n{comparison}\n".encode())
        write_atomically(folder / "comparison.json", f"{record}\n".encode())
    except OSError as error:
        raise cannot_write(f"the comparison into {folder}", error) from None
