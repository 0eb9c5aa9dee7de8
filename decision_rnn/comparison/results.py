"""A comparison's results: its tables, and the files of its folder.

comparison.json    the record: every run's measurements
comparison.md      tables
scores.svg         a picture of the scores
config.yaml        the configuration, for `compare --config`
report.html        one page with all of it, which needs no network and runs no script
DATASET/VARIANT-seedN/    the runs
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decision_rnn.comparison import summary, tables
from decision_rnn.comparison.record import Record
from decision_rnn.utils.files import write_atomically
from decision_rnn.utils.messages import pluralize
from decision_rnn.utils.parsing import read_json, to_json


@dataclass(frozen=True, kw_only=True)
class Comparison(Record):
    """The results of a comparison; `print(comparison)` shows its tables in Markdown."""

    def table(self) -> list[dict[str, Any]]:
        """A row for every variant at every target of every dataset.

        `score` is the mean over the `seeds` that finished; `failed` is the number of those that did not. `low` and
        `high` are its 95% interval or, with fewer than five seeds or failed runs, the range (`spread`). `difference`
        is from the variant `reference`, with Welch's 95% interval; `p_value` is adjusted over the variants and
        `significant` is whether it is below 5%, `equivalent` whether two one-sided tests at 5% reject differences
        beyond the margin; these are None where nothing was tested. Every metric has its own
        columns, such as `success`, `success_low` and `success_high`. With held-out episodes there are rows with
        `held_out_R2` or `held_out_accuracy` in place of target and score, also for references without a network.
        """
        return summary.rows(self)

    def to_dataframe(self) -> Any:
        """`table` as a `pandas.DataFrame`."""
        import pandas

        return pandas.DataFrame(self.table())

    def __str__(self) -> str:
        return tables.render("comparison.md", self)

    def __repr__(self) -> str:
        lines = [f"Comparison({pluralize(len(self.trials), 'run')}, {len(self.failed)} failed; print it for tables)"]
        for section in tables.sections(self):
            lines.append(f"{section.title}: {section.finding}")
            lines += [f"  {name}: {cell}" for table in section.tables[:1] for name, cell, *_ in table.rows]
        return "\n".join(lines)


def read_comparison(path: Path | str) -> Comparison:
    """Read a comparison.

    Args:
        path: The folder that `compare` wrote, or its comparison.json.

    Raises:
        InputError: If there is none, or of another version.
    """
    file = Path(path) / "comparison.json" if Path(path).is_dir() else Path(path)
    return read_json(file, Comparison, "Name the folder of a comparison, or run its command again.")


def write_comparison(folder: Path, comparison: Comparison) -> None:
    """Write comparison.json, comparison.md, report.html and scores.svg, the scores over the datasets or on the first
    one."""
    from decision_rnn.comparison import figures  # imports matplotlib, which is heavy

    record = json.dumps(to_json(comparison), separators=(",", ":"), allow_nan=False)
    write_atomically(folder / "comparison.json", f"{record}\n".encode())
    pictures = {tables.ALL: [figures.scores(comparison, None)]}
    for dataset in comparison.datasets:
        pictures[dataset.data.name] = [draw(comparison, dataset) for draw in (figures.scores, figures.return_tracking)]
    main = pictures[tables.ALL][0] or pictures[comparison.datasets[0].data.name][0]
    title = f"Comparison on {tables.join_names(dataset.data.name for dataset in comparison.datasets)}"
    page = tables.render("page.html", comparison, title=title, pictures=pictures)
    write_atomically(folder / "comparison.md", f"![Scores](scores.svg)\n\n{comparison}\n".encode())
    write_atomically(folder / "scores.svg", str(main).encode())
    write_atomically(folder / "report.html", page.encode())
