"""Tables and findings of a comparison, in Markdown and for its page."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from decision_rnn.comparison.record import ComparedDataset, Record, Trial
from decision_rnn.comparison.summary import Measure, learning_curves, measures, overall, summarise, target_errors
from decision_rnn.evaluation.statistics import LEVEL, Scores, SeedDifference, deviation_over_seeds
from decision_rnn.utils.machine import describe_hardware, describe_versions
from decision_rnn.utils.messages import counted

ALL = "All datasets"
Columns = dict[str, dict[str, str]]
"""Cells by column and by label of the variant."""
COSTS: dict[str, tuple[str, str, Callable[[Sequence[float]], float]]] = {
    "parameters": ("parameters", "{:,.0f}", max),
    "training": ("training_seconds", "{:,.0f} s", median),
    "one action": ("action_microseconds", "{:,.0f} µs", min),
    "state": ("state_bytes", "{:,.0f} B", max),
}
"""By column: the attribute of a run, its format, and the statistic over the seeds."""


@dataclass(frozen=True)
class Table:
    """A table of one row per variant: heads of all columns but the first, which has the names, and cells."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """The part of a report on one dataset, or over all of them."""

    title: str
    finding: str
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


def render(template: str, record: Record, **values: Any) -> str:
    """A report of a comparison from a template beside this file."""
    environment = Environment(
        loader=PackageLoader("decision_rnn.comparison", "."),
        autoescape=template.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {"counted": counted, "listed": listed, "machine": _describe_machine}
    if template != "method.txt":
        values |= {"sections": sections(record), "method": render("method.txt", record).split("\n\n")}
    return environment.get_template(template).render(record=record, **values)


def sections(record: Record) -> list[Section]:
    """A section over all datasets if there are several, and one for each dataset."""
    several = len(record.datasets) > 1
    return [_over_datasets(record)] * several + [_on_dataset(record, dataset) for dataset in record.datasets]


def _over_datasets(record: Record) -> Section:
    names, failed, summary = record.names, record.failures(), overall(record)
    main = {dataset.data.name: measures(record, dataset)[0] for dataset in record.datasets}
    scores = {"score": {name: _cells(measure) for name, measure in main.items()}}
    if summary is None:
        text = "Fewer than two datasets have scores of every variant to aggregate."
        return Section(ALL, text, _tables(names, scores))
    means, total = {}, len(record.seeds) * len(record.datasets)
    for label, mean in summary.aggregates.items():
        marks = f", {failed[label]} of {total} failed" if failed[label] else ""
        means[label] = format_interval(mean.score, mean.low, mean.high) + marks
    improvements = _difference_cells(summary.improvements, ".2f", 0.5)
    columns = {"interquartile mean": means, f"probability of improvement on {names[record.reference]}": improvements}
    best = max(_complete(means, failed), key=lambda label: summary.aggregates[label].score)
    datasets = summary.scores[best]
    finding = f"{names[best]} has the highest interquartile mean over {len(datasets)} datasets: {means[best]}."
    left_out = [name for name in main if name not in datasets] + [names[label] for label in names if label not in means]
    return Section(
        ALL,
        finding + _describe_differences(record, summary.improvements, 0.5),
        _tables(names, {"over datasets": columns, **scores}),
        (f"Left out for lack of results: {listed(left_out)}.",) * bool(left_out),
    )


def _on_dataset(record: Record, dataset: ComparedDataset) -> Section:
    names, runs, notes = record.names, record.runs(dataset.data.name), _notes(record, dataset)
    if not runs:
        return Section(dataset.data.name, "No run has a result.", notes=notes)
    main, *others = measures(record, dataset)
    shown = [main, *(measure for measure in others if measure.target and measure.target.roles != ("spread",))]
    differences, cells = main.differences(record.reference), _cells(main)

    tables: dict[str, Columns] = defaultdict(lambda: defaultdict(dict))
    scores = tables["score" if dataset.held_out is None else dataset.held_out.dataset]
    scores[main.title] = cells
    if any(difference.p_value is not None for difference in differences.values()):
        scores[f"difference from {names[record.reference]}"] = _difference_cells(differences, f"+{main.digits}")
    scores |= {measure.title: _cells(measure) for measure in shown}
    for label, errors in target_errors(record, dataset).items():
        scores["target-return error, %"][label] = format_seeds(errors)
    for label, results in main.results.items():
        per_episode = [dataset.data.normalised(np.array(result.returns)) for result in results]
        if (deviation := deviation_over_seeds(per_episode)) is not None:
            text = f"{deviation[0]:.1f} ({deviation[1]:.1f})"
            scores["sd over seeds (of the agents)"][label] = text
        for task, values in enumerate(zip(*(result.task_scores for result in results), strict=True), 1):
            tables[f"score by task, {main.title}"][f"task {task}"][label] = format_seeds(values)
    for measure in shown:
        for label, results in measure.results.items():
            for name in results[0].metrics:
                metric = format_seeds([result.metrics[name].mean for result in results], ".4g")
                tables[name][measure.title][label] = metric
    checkpoints = tables[f"checkpoint, {counted(record.checkpoint_episodes, 'episode')}"]
    for label, (_, points) in learning_curves(record, dataset).items():
        checkpoints["last"][label] = format_seeds(points[:, -1])
        checkpoints["best of each seed (biased upwards)"][label] = format_seeds(points.max(axis=1))
    for column, (attribute, text, over_seeds) in COSTS.items():
        for label, trials in runs.items():
            if costs := [cost for run in trials if (cost := getattr(run, attribute))]:
                tables["cost"][column][label] = text.format(over_seeds(costs))

    means = {label: fmean(values) for label, values in main.values.items()}
    best = (max if main.target else min)(_complete(means, main.failed), key=means.__getitem__)
    what = (
        f"scores highest at {main.title}".removesuffix(" at score") if main.target else f"has the lowest {main.title}"
    )
    seeds = counted(len(main.values[best]), "seed")
    finding = f"{names[best]} {what}: {cells[best]}, {seeds}.{_describe_differences(record, differences)}"
    return Section(dataset.data.name, finding, _tables(names, tables), notes)


def _complete(labels: Iterable[str], failed: Counter[str]) -> list[str]:
    """The variants without failed runs, or all if there are none."""
    return [label for label in labels if not failed[label]] or [*labels]


def verdict(difference: SeedDifference, equal: float = 0.0) -> str:
    """Whether a variant differs significantly from the reference; `equal` is the difference of equal ones."""
    if difference.p_value is None:
        return "not tested"
    higher = "higher" if difference.difference > equal else "lower"
    return f"significantly {higher}" if difference.p_value < 1 - LEVEL else "no significant difference"


def _describe_differences(record: Record, differences: Mapping[str, SeedDifference], equal: float = 0.0) -> str:
    verdicts: dict[str, list[str]] = defaultdict(list)
    for label, difference in differences.items():
        verdicts[verdict(difference, equal)].append(record.names[label])
    text = "; ".join(f"{kind}: {listed(names)}" for kind, names in verdicts.items())
    return f" Compared with {record.names[record.reference]}, {text}." if verdicts else ""


def _difference_cells(differences: Mapping[str, SeedDifference], digits: str, equal: float = 0.0) -> dict[str, str]:
    return {
        label: f"{format_interval(each.difference, each.low, each.high, digits)}, {verdict(each, equal)}"
        for label, each in differences.items()
    }


def _cells(measure: Measure) -> dict[str, str]:
    values, failed, episodes = measure.values, measure.failed, measure.episodes
    return {
        label: format_seeds(values.get(label, ()), measure.digits, failed[label], episodes.get(label))
        for label in values | failed
    }


def _tables(names: Mapping[str, str], tables: Mapping[str, Columns]) -> tuple[Table, ...]:
    """Tables from cells by title, column and label, without empty columns, rows and tables."""
    filled = []
    for title, columns in tables.items():
        columns = {head: cells for head, cells in columns.items() if any(cells.values())}
        labels = [label for label in names if any(cells.get(label) for cells in columns.values())]
        rows = tuple((names[label], *(cells.get(label, "") for cells in columns.values())) for label in labels)
        filled += [Table(title, tuple(columns), rows)] * bool(rows)
    return tuple(filled)


def _notes(record: Record, dataset: ComparedDataset) -> tuple[str, ...]:
    """Failed runs, and what to know before trusting the scores, with the variants concerned."""
    runs, names, data = record.runs(dataset.data.name), record.names, dataset.data
    failed = [run for run in record.failed if run.dataset == data.name]
    notes = [f"Failed: {names[run.variant]}, seed {run.seed}: {run.error}" for run in failed]
    if dataset.held_out is None:
        best = float(data.normalised(data.return_max))
        notes.append(f"Episodes of the data score {data.score_mean:.1f} on average and {best:.1f} at best.")
        notes += [data.comparable] * bool(data.comparable)
    concerned: dict[str, dict[str, None]] = defaultdict(dict)
    for label, trials in runs.items():
        for remark in (remark for run in trials for remark in run.remarks):
            concerned[remark][names[label]] = None
    for remark, variants in concerned.items():
        notes.append(f"{listed(variants)}: {remark}" if len(variants) < len(runs) else remark)
    return (*notes, *data.notes)


def format_seeds(values: Scores, digits: str = ".1f", failed: int = 0, episodes: int | None = None) -> str:
    """A mean with its interval, or with the value of every seed if it has none, and the number of failed runs."""
    texts, summary = [], summarise(values, failed, episodes)
    if summary.spread == "95% interval":
        texts.append(format_interval(summary.score, summary.low, summary.high, digits))
    elif len(values):
        seeds = f" ({', '.join(f'{value:{digits}}' for value in values)})" if len(values) > 1 else ""
        texts.append(f"{summary.score:{digits}}{seeds}")
    return ", ".join(texts + [f"{failed} of {failed + len(values)} failed"] * bool(failed))


def format_interval(value: float, low: float | None, high: float | None, digits: str = ".1f") -> str:
    """A value with its interval: `81.2 [78.0, 84.1]`."""
    interval = "" if low is None or high is None else f" [{low:{digits}}, {high:{digits}}]"
    return f"{value:{digits}}{interval}"


def listed(names: Iterable[object]) -> str:
    """`a, b and c`."""
    *most, last = [*map(str, names)] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _describe_machine(run: Trial) -> str:
    return f"{describe_hardware(run.hardware)}; {describe_versions(run.versions)}."
