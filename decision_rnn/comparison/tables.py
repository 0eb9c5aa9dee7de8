"""Tables and findings of a comparison, in Markdown and for its page."""

from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import product
from math import isnan
from statistics import median
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from decision_rnn.comparison.record import ComparedDataset, Record
from decision_rnn.comparison.summary import ComparedScore, compared_scores, overall, target_errors
from decision_rnn.evaluation.statistics import FEWEST_FOR_INTERVAL, LEVEL, Estimate, Scores, summarise_seeds
from decision_rnn.utils.machine import describe_hardware, describe_versions
from decision_rnn.utils.messages import pluralize

ALL = "All datasets"
Columns = dict[str, dict[str, str]]
"""Cells by column and by label of the variant."""


class Table(NamedTuple):
    """A table: heads of all columns but the first, and rows, each with the name of a variant or a dataset first."""

    title: str
    head: list[str]
    rows: list[list[str]]
    row_head: str = "variant"


class Section(NamedTuple):
    """The part of a report on one dataset, or over all of them."""

    title: str
    finding: str
    tables: list[Table]
    notes: list[str]


def render(template: str, record: Record, **values: Any) -> str:
    """A report of a comparison from a template beside this file."""
    loader, escapes = PackageLoader("decision_rnn.comparison", "."), template.endswith(".html")
    environment = Environment(loader=loader, autoescape=escapes, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"pluralize": pluralize, "join_names": join_names}
    environment.filters["base64"] = lambda text: b64encode(text.encode()).decode()
    environment.filters |= {"hardware": describe_hardware, "versions": describe_versions}
    environment.globals |= {"sections": sections, "method": lambda: render("method.txt", record).split("\n\n")}
    return environment.get_template(template).render(record=record, preliminary=preliminary(record), **values)


def preliminary(record: Record) -> str:
    """`Preliminary: 1 to 3 seeds`, if a variant has fewer finished runs than an interval needs; otherwise empty."""
    finished = Counter((trial.variant, trial.dataset) for trial in record.trials)
    pairs = product(record.variants, record.datasets)
    numbers = {finished[variant.label, dataset.data.name] for variant, dataset in pairs}
    if min(numbers) >= FEWEST_FOR_INTERVAL:
        return ""
    return "Preliminary: " + (f"{min(numbers)} to " if len(numbers) > 1 else "") + pluralize(max(numbers), "seed")


def sections(record: Record) -> list[Section]:
    """A section over all datasets if there are several, and one for each dataset."""
    by_dataset = [_on_dataset(record, dataset) for dataset in record.datasets]
    return [_over_datasets(record), *by_dataset] if len(by_dataset) > 1 else by_dataset


def _over_datasets(record: Record) -> Section:
    names, failed, summary = record.names, record.failures(), overall(record)
    main = {dataset.data.name: compared_scores(record, dataset)[0] for dataset in record.datasets}
    scores = _tables(record, {"score": {name: _cells(compared) for name, compared in main.items()}})
    if summary is None:
        return Section(ALL, "Fewer than two datasets have returns of every variant.", scores, [])
    if len(main) > len(names):  # a page is longer than wide
        scores = list(map(_transposed, scores))
    means, total = {}, len(record.seeds) * len(record.datasets)
    for label, mean in summary.aggregates.items():
        means[label] = _interval(mean, ".1f") + (f", {failed[label]} of {total} failed" if failed[label] else "")
    reference, differences = record.variants[0].name, summary.differences
    columns = {
        "interquartile mean": means,
        f"mean difference from {reference}": _verdicts(record, differences, "+.1f") if tested(differences) else {},
        f"probability of improvement on {reference}": _verdicts(record, summary.improvements, ".2f", 0.5),
    }
    best = max(means, key=lambda label: (not failed[label], summary.aggregates[label].value))
    finding = f"{names[best]} has the highest interquartile mean over {len(summary.scores[best])} datasets"
    left_out = [name for name in main if name not in summary.scores[best]]
    left_out += [names[label] for label in names if label not in means]
    notes = [f"Left out for lack of results: {join_names(left_out)}."] if left_out else []
    compared = _describe_differences(record, differences, " in mean score")
    tables = [*_tables(record, {"over datasets": columns}), *scores]
    return Section(ALL, f"{finding}: {means[best]}. {compared}", tables, notes)


def _on_dataset(record: Record, dataset: ComparedDataset) -> Section:
    names, runs, notes = record.names, record.runs(dataset.data.name), _notes(record, dataset)
    if not runs:
        return Section(dataset.data.name, "No run has a result.", [], notes)
    main, *further = compared_scores(record, dataset)
    tabulated = [main, *(each for each in further if not each.target or each.target.roles != ("spread",))]
    differences, cells = main.differences, _cells(main)

    tables: dict[str, Columns] = defaultdict(lambda: defaultdict(dict))
    scores = tables["score" if dataset.held_out is None or dataset.targets else dataset.held_out.dataset]
    scores[main.title] = cells
    if tested(differences):
        scores[f"difference from {record.variants[0].name}"] = _verdicts(record, differences, f"+{main.digits}")
    scores |= {compared.title: _cells(compared) for compared in tabulated}
    for label, errors in target_errors(record, dataset).items():
        scores["target-return error, %"][label] = format_seeds(errors, main.failed[label])
    for label, results in main.results.items():
        for task, values in enumerate(zip(*(result.task_scores for result in results), strict=True), 1):
            tables[f"score by task, {main.title}"][f"task {task}"][label] = format_seeds(values, main.failed[label])
    for compared in tabulated:
        for label, results in compared.results.items():
            for name in results[0].metrics:
                metric = [result.metrics[name].mean for result in results]
                tables[name][compared.title][label] = format_seeds(metric, main.failed[label], ".4g")
    costs = tables["cost"]
    for label, trials in runs.items():
        costs["parameters"][label] = f"{trials[0].parameters:,}"
        costs["training"][label] = f"{median(run.training_seconds for run in trials):,.0f} s"
        times = [run.action_microseconds for run in trials if run.action_microseconds]
        costs["one action"][label] = f"{min(times):,.0f} µs" if times else ""
        costs["state"][label] = f"{trials[0].state_bytes:,} B" if trials[0].state_bytes else ""

    best = max(main.values, key=lambda label: (not main.failed[label], main.means[label].value))
    highest = f"scores highest at {main.title}" if main.target else f"has the highest {main.title}"
    seeds = pluralize(len(main.values[best]), "seed")
    finding = f"{names[best]} {highest.removesuffix(' at score')}: {cells[best]}, {seeds}."
    finding += f" {_describe_differences(record, differences)}"
    return Section(dataset.data.name, finding.strip(), _tables(record, tables), notes)


def verdict(difference: Estimate, margin: float | None, equal: float = 0.0) -> str:
    """Whether a variant differs significantly from the reference, and whether it is equivalent to it within a margin;
    `equal` is the difference of equal ones."""
    if difference.p_value is None:
        return "not tested"
    higher = "higher" if difference.value > equal else "lower"
    verdicts = [f"significantly {higher}"] if difference.p_value < 1 - LEVEL else []
    if difference.equivalence is not None and difference.equivalence < 1 - LEVEL:
        verdicts.append(f"equivalent within {margin:g}")
    return " but ".join(verdicts) or "no significant difference"


def tested(differences: Mapping[str, Estimate]) -> bool:
    """Whether any of the differences was tested."""
    return any(difference.p_value is not None for difference in differences.values())


def _describe_differences(record: Record, differences: Mapping[str, Estimate], by: str = "") -> str:
    names: dict[str, list[str]] = defaultdict(list)
    for label, difference in differences.items():
        names[verdict(difference, record.margin)].append(record.names[label])
    text = "; ".join(f"{kind}: {join_names(variants)}" for kind, variants in names.items())
    return f"Compared with {record.variants[0].name}{by}, {text}." if text else ""


def _verdicts(record: Record, differences: Mapping[str, Estimate], digits: str, equal: float = 0.0) -> dict[str, str]:
    margin = record.margin
    return {label: f"{_interval(each, digits)}, {verdict(each, margin, equal)}" for label, each in differences.items()}


def _cells(compared: ComparedScore) -> dict[str, str]:
    return {
        label: format_estimate(mean, compared.values.get(label, []), compared.digits, compared.failed[label])
        for label, mean in compared.means.items()
    }


def _tables(record: Record, tables: Mapping[str, Columns]) -> list[Table]:
    """Tables from cells by title, column and label, without empty columns, rows and tables."""
    filled, names = [], dict(record.names)
    for columns in tables.values():
        names |= {label: label for cells in columns.values() for label in cells if label not in names}  # references
    for title, columns in tables.items():
        columns = {head: cells for head, cells in columns.items() if any(cells.values())}
        labels = [label for label in names if any(cells.get(label) for cells in columns.values())]
        rows = [[names[label], *(cells.get(label, "") for cells in columns.values())] for label in labels]
        if rows:
            filled.append(Table(title, [*columns], rows))
    return filled


def _transposed(table: Table) -> Table:
    names, *columns = zip(*table.rows, strict=True)
    rows = [[head, *cells] for head, cells in zip(table.head, columns, strict=True)]
    return Table(table.title, list(names), rows, "dataset")


def _notes(record: Record, dataset: ComparedDataset) -> list[str]:
    """Failed runs, and what to know before trusting the scores, with the variants concerned."""
    runs, data = record.runs(dataset.data.name), dataset.data
    failed = [run for run in record.failed if run.dataset == data.name]
    notes = [f"Failed: {record.names[run.variant]}, seed {run.seed}: {run.error}" for run in failed]
    if dataset.targets:
        best = float(data.normalised(data.return_max))
        notes.append(f"Episodes of the data score {data.score_mean:.1f} on average and {best:.1f} at best.")
        if data.comparable:
            notes.append(data.comparable)
    concerned: dict[str, dict[str, None]] = defaultdict(dict)
    for label, trials in runs.items():
        for remark in (remark for run in trials for remark in run.remarks):
            concerned[remark][record.names[label]] = None
    for remark, variants in concerned.items():
        notes.append(f"{join_names(variants)}: {remark}" if len(variants) < len(runs) else remark)
    return [*notes, *data.notes]


def format_seeds(values: Scores, failed: int, digits: str = ".1f") -> str:
    """A mean with its interval, or with the value of every seed if it has none, as where runs failed."""
    return format_estimate(summarise_seeds(values, complete=not failed), values, digits)


def format_estimate(summary: Estimate, values: Scores, digits: str, failed: int = 0) -> str:
    """A mean over seeds with its interval, or with the value of every seed if it has none, and the number of failed
    runs."""
    text = "" if isnan(summary.value) else _interval(summary, digits)
    if summary.spread == "range":
        text = f"{summary.value:{digits}} ({', '.join(f'{value:{digits}}' for value in values)})"
    failures = f"{failed} of {failed + len(values)} failed" if failed else ""
    return ", ".join(filter(None, (text, failures)))


def _interval(estimate: Estimate, digits: str) -> str:
    """A value with its interval: `81.2 [78.0, 84.1]`."""
    interval = "" if estimate.low is None else f" [{estimate.low:{digits}}, {estimate.high:{digits}}]"
    return f"{estimate.value:{digits}}{interval}"


def join_names(names: Iterable[object]) -> str:
    """`a, b and c`."""
    *most, last = [*map(str, names)] or [""]
    return f"{', '.join(most)} and {last}" if most else last
