"""A report as one HTML file that needs no network access and runs no script."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from decision_rnn.comparison.record import ComparedDataset, Comparison, read_comparison
from decision_rnn.comparison.report.clips import clips_section
from decision_rnn.comparison.report.conclusions import conclusions
from decision_rnn.comparison.report.markdown import describe, describe_origin
from decision_rnn.comparison.report.parts import Findings, Section
from decision_rnn.comparison.report.sections import SECTIONS
from decision_rnn.comparison.report.words import listed
from decision_rnn.utils.errors import cannot_write
from decision_rnn.utils.files import check_destination, write_atomically
from decision_rnn.utils.machine import versions
from decision_rnn.utils.messages import counted


def write_page(path: Path, output: Path | None = None, clips: int = 0, plugins: Sequence[str] = ()) -> Path:
    """Write the page of the comparison at `path`, its folder or its comparison.json, with clips of that many variants,
    to `output`, by default report.html beside comparison.json; returns the file.

    Raises:
        InputError: If there is no comparison, or the page cannot be written.
        EnvironmentFailure: If the disk is full.
    """
    comparison = read_comparison(path)
    folder = path if path.is_dir() else path.parent
    output = output or folder / "report.html"
    check_destination(output)
    page = build_page(comparison, clips_section(comparison, folder, clips, plugins))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, page.encode())
    except OSError as error:
        raise cannot_write(output, error) from None
    return output


def _made_from(dataset: ComparedDataset, played: str | None) -> str:
    fingerprint, held_out = f"fingerprint {dataset.data.fingerprint[:16]}", dataset.held_out
    if held_out is None:
        return f"played in {played or dataset.data.environment_id}, {fingerprint}"
    return f"{fingerprint}; held out: {held_out.dataset}, fingerprint {held_out.fingerprint[:16]}"


def build_page(comparison: Comparison, clips: Section | None = None) -> str:
    """The page of a comparison, as HTML, with the section of the clips (clips.py), if any."""
    findings = Findings(comparison)
    made = [*(make(findings) for make in SECTIONS), *filter(None, [clips])]
    names = [dataset.data.name for dataset in comparison.datasets]
    failed = counted(len(comparison.failed), "failed run")
    played = comparison.variants[0].config["evaluation"].get("environment_id")
    environment = Environment(
        loader=PackageLoader("decision_rnn.comparison.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("page.html").render(
        version=versions(["decision-rnn"])["decision-rnn"],
        title=f"Comparison on {listed(names)}",
        compared=describe(comparison),
        conclusions=conclusions(findings),
        warning=f"Missing from all numbers: {failed}, listed below." * bool(comparison.failed),
        sections=[section for section in made if section.groups],
        single=names[0] if len(names) == 1 else "",
        made=[
            describe_origin(comparison),
            *(f"{of.data.name}: {_made_from(of, played)}." for of in comparison.datasets),
        ],
    )
    return "".join(f"{line}\n" for line in page.splitlines() if line)
