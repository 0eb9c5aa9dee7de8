"""A comparison as one HTML page, which needs no network and runs no script."""

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from decision_rnn.comparison import figures
from decision_rnn.comparison.results import Comparison, read_comparison
from decision_rnn.comparison.tables import describe_method, listed, sections
from decision_rnn.utils.errors import cannot_write
from decision_rnn.utils.files import check_destination, write_atomically


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
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, build_page(comparison).encode())
    except OSError as error:
        raise cannot_write(output, error) from None
    return output


def build_page(comparison: Comparison) -> str:
    """The page as HTML."""
    summary, overall = comparison.summary, comparison.summary.overall()
    datasets = {dataset.data.name: dataset for dataset in comparison.datasets if summary.trials(dataset)}
    drawn = {
        name: [
            figures.scores(summary, [dataset], f"scores{i}"),
            figures.return_tracking(summary, dataset, f"tracking{i}"),
            figures.learning_curves(summary, dataset, f"learning{i}"),
        ]
        for i, (name, dataset) in enumerate(datasets.items())
    }
    pictures = {name: [Markup(svg) for svg in svgs if svg] for name, svgs in drawn.items()}
    if overall is not None:
        top = [Markup(figures.scores(summary, [None], "all"))]
    elif len(comparison.datasets) == 1:
        top = [picture for of_dataset in pictures.values() for picture in of_dataset[:2]]
        pictures = {name: of_dataset[2:] for name, of_dataset in pictures.items()}
    else:
        top = [of_dataset.pop(0) for of_dataset in pictures.values()]
    environment = Environment(
        loader=PackageLoader("decision_rnn.comparison", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("page.html").render(
        title=f"Comparison on {listed(of.data.name for of in comparison.datasets)}",
        top=top,
        sections=sections(summary),
        pictures=pictures,
        method=describe_method(summary),
        colours=Markup(figures.VARIABLES),
    )
    return "".join(f"{line}\n" for line in page.splitlines() if line.strip())
