"""Renders the record of a comparison as one HTML file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from decision_rnn.comparison.page.clips import clips_section
from decision_rnn.comparison.page.findings import findings
from decision_rnn.comparison.page.overall import overall_findings
from decision_rnn.comparison.page.parts import Group, Section
from decision_rnn.comparison.page.sections import Sections
from decision_rnn.comparison.page.style import marks, variables
from decision_rnn.comparison.page.words import listed, plural
from decision_rnn.comparison.record import Comparison, read_comparison
from decision_rnn.comparison.summary import VariantSummary, remarks_of, summarise
from decision_rnn.comparison.verdicts import over_datasets
from decision_rnn.errors import InputError
from decision_rnn.files import check_folder, write_atomically
from decision_rnn.machine import describe_versions, versions


def write_page(path: Path, output: Path | None = None, clips: int = 0, plugins: Sequence[str] = ()) -> Path:
    """Write the page of the comparison at `path`, its folder or its comparison.json.

    Args:
        path: Folder of the comparison, or its comparison.json.
        output: File of the page; None for report.html beside comparison.json.
        clips: Number of variants to render a clip of.
        plugins: Modules that agents or environments need.

    Returns:
        The file of the page.

    Raises:
        InputError: If there is no comparison, or the page cannot be written.
    """
    comparison = read_comparison(path)
    folder = path if path.is_dir() else path.parent
    output = folder / "report.html" if output is None else output
    if output.is_dir():
        raise InputError(f"{output} is a folder: name the file of the page, such as {output / 'report.html'}")
    try:
        check_folder(output.parent)
        page = build_page(comparison, summarise(comparison), clips_section(comparison, folder, clips, plugins))
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, page.encode())
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror}") from None
    return output


def build_page(comparison: Comparison, summaries: Sequence[VariantSummary], clips: Section | None = None) -> str:
    """The page of a comparison, as HTML that needs no network access.

    Args:
        comparison: The record.
        summaries: Its summaries, by variant and dataset.
        clips: The section of the clips (clips.py), if any.
    """
    controls = {variant.label for variant in comparison.variants if variant.control}
    datasets = {dataset.data.name: dataset for dataset in comparison.datasets}
    found = {name: [summary for summary in summaries if summary.dataset == name] for name in datasets}
    over_all = over_datasets(comparison, summaries)
    said = [(name, findings(dataset, found[name], controls)) for name, dataset in datasets.items()]
    if len(datasets) > 1:
        said.insert(0, ("Over all datasets", overall_findings(over_all, controls)))
    sections = Sections(comparison, found, over_all, marks(comparison.variants)).all()
    sections += [section for section in (clips, _failed(comparison), _remarks(found)) if section is not None]
    environment = Environment(
        loader=PackageLoader("decision_rnn.comparison.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return (
        environment.get_template("page.html")
        .render(
            version=versions(["decision-rnn"])["decision-rnn"],
            title=f"Comparison on {listed((dataset.data.name for dataset in comparison.datasets), 4)}",
            compared=_compared(comparison),
            findings=said,
            warning=_warning(comparison),
            sections=sections,
            command=comparison.command,
            made=_made(comparison),
            light=variables("light"),
            dark=variables("dark"),
        )
        .strip()
        + "\n"
    )


def _compared(comparison: Comparison) -> list[str]:
    """What was compared, in sentences."""
    methods = [variant.label for variant in comparison.variants if not variant.control]
    controls = [variant.label for variant in comparison.variants if variant.control]
    steps = {variant.label: variant.config["training"]["steps"] for variant in comparison.variants}
    trained = (
        f"{next(iter(steps.values())):,} steps"
        if len(set(steps.values())) == 1
        else (f"{min(steps.values()):,} to {max(steps.values()):,} steps")
    )
    states = [_acting(comparison.window)]
    states += [f"{label} with {_acting(window)}" for label, window in comparison.own_windows().items()]
    first = f"{plural(len(methods), 'variant')} ({listed(methods)})" if methods else ""
    second = f"{plural(len(controls), 'control')} ({listed(controls)})" if controls else ""
    names = listed(dataset.data.name for dataset in comparison.datasets)
    return [
        f"{' and '.join(filter(None, (first, second)))} on {names}, each trained for {trained} with "
        f"{plural(len(comparison.seeds), 'seed')} ({listed(map(str, comparison.seeds), 12)}).",
        f"The last checkpoint plays {plural(comparison.episodes, 'episode')} for each target, with "
        f"{'; '.join(states)}.",
    ]


def _acting(window: int | None) -> str:
    if window is None:
        return "the recurrent state carried over the whole episode"
    return f"a window of the last {window} steps re-run for every action"


def _warning(comparison: Comparison) -> str:
    failed = len(comparison.failed)
    if not failed:
        return ""
    return f"{plural(failed, 'run')} failed and {'is' if failed == 1 else 'are'} missing from all numbers: see below."


def _failed(comparison: Comparison) -> Section | None:
    if not comparison.failed:
        return None
    text = tuple(f"{run.variant} on {run.dataset}, seed {run.seed}: {run.error}" for run in comparison.failed)
    return Section(
        "failed", "Failed runs", ("The command tries these again when it is repeated.",), (Group(text=text),)
    )


def _remarks(found: Mapping[str, Sequence[VariantSummary]]) -> Section | None:
    """What a reader has to know before trusting the scores on each dataset, with the variants concerned."""
    groups = []
    for name, summaries in found.items():
        text = tuple(
            f"{listed(of)}: {remark}." if of else f"{remark[0].upper()}{remark[1:]}."
            for remark, of in remarks_of(summaries).items()
        )
        if text:
            groups.append(Group(title=name if len(found) > 1 else "", text=text))
    return (
        Section("remarks", "Remarks", ("What to know before believing the scores.",), tuple(groups)) if groups else None
    )


def _made(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """Data, code, packages and machines behind the numbers."""
    data = [dataset.data for dataset in comparison.datasets]
    commits = dict.fromkeys(cell.commit or "an installed package" for cell in comparison.trials)
    versions = dict.fromkeys(describe_versions(cell.versions) for cell in comparison.trials)
    machines = dict.fromkeys(_pairs(cell.hardware) for cell in comparison.trials)
    made = [
        ("Data", [f"{of.name}, played in {of.environment_id}, fingerprint {of.fingerprint[:16]}" for of in data]),
        ("Comparability", [f"{of.name}: {of.comparable}." for of in data if of.comparable]),
        ("Notes on the data", [f"{of.name}: {note}." for of in data for note in of.notes]),
        ("Commit that evaluated", list(commits)),
        ("Versions", list(versions)),
        ("Machine", list(machines)),
        ("Runs at the same time", [comparison.jobs_at_a_time()]),
        ("Gathered with", [describe_versions(comparison.versions), _pairs(comparison.hardware)]),
    ]
    return [(name, lines) for name, lines in made if any(lines)]


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
