"""A comparison as one HTML page, which needs no network and runs no script."""

from pathlib import Path

from markupsafe import Markup

from decision_rnn.comparison import figures
from decision_rnn.comparison.record import Record
from decision_rnn.comparison.results import read_comparison
from decision_rnn.comparison.tables import listed, render
from decision_rnn.utils.errors import cannot_write
from decision_rnn.utils.files import check_destination, new_file


def write_page(path: Path, output: Path | None = None) -> Path:
    """Write the page of the comparison at `path`, its folder or its comparison.json; returns the file.

    Args:
        path: The comparison.
        output: The file; report.html in the comparison's folder if left out.

    Raises:
        InputError: If there is no comparison, or the page cannot be written.
        EnvironmentFailure: If the disk is full.
    """
    comparison = read_comparison(path)
    output = output or (path if path.is_dir() else path.parent) / "report.html"
    check_destination(output)
    try:
        with new_file(output) as file:
            file.write_text(build_page(comparison))
    except OSError as error:
        raise cannot_write(output, error) from None
    return output


def build_page(record: Record) -> str:
    """The page as HTML."""
    return render(
        "page.html",
        record,
        title=f"Comparison on {listed(dataset.data.name for dataset in record.datasets)}",
        pictures={title: [*map(Markup, svgs)] for title, svgs in figures.pictures(record).items()},
        colours=Markup(figures.VARIABLES),
    )
