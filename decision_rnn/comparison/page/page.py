"""One HTML file from the record of a comparison."""

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from decision_rnn import __version__
from decision_rnn.comparison.page.findings import findings
from decision_rnn.comparison.page.parts import Group, Section
from decision_rnn.comparison.page.sections import Sections
from decision_rnn.comparison.page.style import marks, variables
from decision_rnn.comparison.page.words import listed, plural
from decision_rnn.comparison.record import Comparison
from decision_rnn.comparison.summary import VariantSummary


def build_page(comparison: Comparison, summaries: Sequence[VariantSummary], clips: Section | None = None) -> str:
    """The page of a comparison: HTML that asks no network for anything.

    Args:
        comparison: The record.
        summaries: What it comes to, per variant and dataset.
        clips: The section of the clips (clips.py); None for none.
    """
    sections = Sections(comparison, summaries, marks(comparison.variants)).all()
    sections += [section for section in (clips, _failed(comparison), _remarks(summaries)) if section is not None]
    controls = {variant.label for variant in comparison.variants if variant.control}
    environment = Environment(
        loader=PackageLoader("decision_rnn.comparison.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (environment.loader.get_source(environment, "page.css")[0]) if environment.loader else ""
    return environment.get_template("page.html").render(
        version=__version__,
        title=f"Comparison on {listed((dataset.data.name for dataset in comparison.datasets), 4)}",
        compared=_compared(comparison),
        findings=[
            (
                dataset.data.name,
                findings(dataset, [s for s in summaries if s.dataset == dataset.data.name], controls),
            )
            for dataset in comparison.datasets
        ],
        warnings=f"{plural(len(comparison.failed), 'run')} failed and {'is' if len(comparison.failed) == 1 else 'are'} "
        "missing from all that follows: see the failed runs below." if comparison.failed else "",
        sections=sections,
        command=comparison.command,
        made=_made(comparison),
        light=variables("light"),
        dark=variables("dark"),
        style=Markup(style),  # ours, and no user's
    ).strip() + "\n"


def _compared(comparison: Comparison) -> list[str]:
    """What was compared, in sentences."""
    methods = [variant.label for variant in comparison.variants if not variant.control]
    controls = [variant.label for variant in comparison.variants if variant.control]
    steps = {variant.label: variant.config["training"]["steps"] for variant in comparison.variants}
    trained = f"{next(iter(steps.values())):,} steps" if len(set(steps.values())) == 1 else (
        f"{min(steps.values()):,} to {max(steps.values()):,} steps"
    )
    state = (
        "the recurrent state carried over the whole episode"
        if comparison.state == "carry"
        else f"a window of the last {comparison.window} steps re-run for every action"
    )
    first = f"{plural(len(methods), 'variant')} ({listed(methods)})" if methods else ""
    second = f"{plural(len(controls), 'control')} ({listed(controls)})" if controls else ""
    names = listed(dataset.data.name for dataset in comparison.datasets)
    return [
        f"{' and '.join(filter(None, (first, second)))} on {names}, each trained for {trained} with "
        f"{plural(len(comparison.seeds), 'seed')} ({listed(map(str, comparison.seeds), 12)}).",
        f"The last checkpoint plays {plural(comparison.episodes, 'episode')} for each return that is asked for, with "
        f"{state}.",
    ]


def _failed(comparison: Comparison) -> Section | None:
    if not comparison.failed:
        return None
    text = tuple(f"{run.variant} on {run.dataset}, seed {run.seed}: {run.error}" for run in comparison.failed)
    return Section("failed", "Failed runs", ("The command tries these again when it is repeated.",), (Group(text=text),))


def _remarks(summaries: Sequence[VariantSummary]) -> Section | None:
    """What a reader has to know before believing the scores, each with the variants that it is said of."""
    said: dict[str, dict[str, None]] = {}
    for summary in summaries:
        for remark in summary.remarks:
            said.setdefault(remark, {})[summary.variant] = None
    if not said:
        return None
    everyone = len({summary.variant for summary in summaries})
    text = tuple(
        f"{remark[0].upper()}{remark[1:]}." if len(of) == everyone else f"{listed(of)}: {remark}."
        for remark, of in said.items()
    )
    return Section("remarks", "Remarks", ("What to know before believing the scores.",), (Group(text=text),))


def _made(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """Data, code, packages and machines behind the numbers."""
    data = [dataset.data for dataset in comparison.datasets]
    commits = dict.fromkeys(cell.commit or "an installed package" for cell in comparison.cells)
    versions = dict.fromkeys(_pairs(cell.versions) for cell in comparison.cells)
    machines = dict.fromkeys(_pairs(cell.hardware) for cell in comparison.cells)
    made = [
        ("Data", [f"{of.name}, played in {of.environment_id}, fingerprint {of.fingerprint[:16]}" for of in data]),
        ("Comparability", [f"{of.name}: {of.comparable}." for of in data if of.comparable]),
        ("Notes on the data", [f"{of.name}: {note}." for of in data for note in of.notes]),
        ("Commit that evaluated", list(commits)),
        ("Versions", list(versions)),
        ("Machine", list(machines)),
        ("Runs at the same time", [str(comparison.jobs)]),
        ("Gathered with", [_pairs(comparison.versions), _pairs(comparison.hardware)]),
    ]
    return [(name, lines) for name, lines in made if any(lines)]


def _pairs(values: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
