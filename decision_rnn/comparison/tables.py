"""Tables and findings of a comparison, in Markdown and for its page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from decision_rnn.comparison.record import ComparedDataset
from decision_rnn.comparison.summary import Measure, Summary, is_significant
from decision_rnn.evaluation.statistics import SeedScores, deviation_over_seeds, summarise_seeds
from decision_rnn.evaluation.tables import format_number, format_return
from decision_rnn.utils.machine import describe_hardware, describe_versions
from decision_rnn.utils.messages import counted

Columns = Mapping[str, Mapping[str, str]]
"""Cells by column and by label of the variant."""
COSTS: dict[str, tuple[str, str, Callable[[Sequence[float]], float]]] = {
    "parameters": ("parameters", "{:,.0f}", max),
    "training": ("training_seconds", "{:,.0f} s", median),
    "one action": ("action_microseconds", "{:,.0f} µs", min),
    "state": ("state_bytes", "{:,.0f} B", max),
}
"""By column: the attribute of a run, its format, and the statistic over the seeds."""
METHOD = (
    "Cells are means over seeds with Student's t 95% interval; with fewer than five seeds, or where runs failed, the "
    "values of the finished seeds are in brackets instead. Differences have Welch's 95% interval and are significant "
    "at 5% after Holm's adjustment over the variants. Over datasets: interquartile mean with a stratified bootstrap "
    "95% interval, and the probability that a run scores higher than one of the reference, tested by a stratified "
    "rank-sum test with Holm's adjustment. Target-return error: mean distance of the median return from targets spread "
    "over the data's range, in % of that range; about 20 if an agent ignores its target. Costs: the largest number of "
    "parameters, the median wall time of training, the fastest seed's median time of an action on one thread, and the "
    "size of the state of one environment."
)


@dataclass(frozen=True)
class Table:
    """A table whose first column heads its rows.

    Attributes:
        title: The head of the first column in Markdown, the caption on the page.
        head: The heads of the other columns.
        rows: Rows of cells, with the head of the row.
        detail: Whether it is folded on the page, and left out of Markdown.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    detail: bool = False

    def markdown(self) -> str:
        lines = [(self.title, *self.head), ["---"] * (len(self.head) + 1), *self.rows]
        return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


@dataclass(frozen=True)
class Section:
    """The part of a report on one dataset, or over all of them: finding, differences, tables and notes."""

    title: str
    finding: str
    differences: str = ""
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


def markdown(summary: Summary) -> str:
    """Findings, tables and notes of every section, and the method."""
    parts = []
    for section in sections(summary):
        parts += [f"## {section.title}", " ".join(filter(None, (section.finding, section.differences)))]
        parts += [table.markdown() for table in section.tables if not table.detail]
        parts += ["\n".join(f"- {note}" for note in section.notes)] * bool(section.notes)
    return "\n\n".join([*parts, "## Method", *describe_method(summary)])


def sections(summary: Summary) -> list[Section]:
    """A section over all datasets if there are several, and one for each dataset."""
    datasets = summary.record.datasets
    return [_over_datasets(summary)] * (len(datasets) > 1) + [_on_dataset(summary, dataset) for dataset in datasets]


def describe_method(summary: Summary) -> list[str]:
    """How the comparison was made, in paragraphs."""
    record, names, held_out = summary.record, summary.names, summary.record.datasets[0].held_out
    steps = {names[of.label]: f"{of.config['training']['steps']:,}" for of in record.variants}
    same = len(set(steps.values())) == 1
    trained = next(iter(steps.values())) if same else listed(f"{count} ({name})" for name, count in steps.items())
    played = f"plays {counted(record.episodes, 'episode')} per target, with {record.variants[0].acting}"
    if held_out is not None:
        played = (
            f"predicts the actions of {held_out.dataset}, {counted(held_out.episodes, 'episode')} of "
            f"{counted(held_out.steps, 'step')} in all; a lower loss does not imply a higher return"
        )
    scales = {of.data.score_meaning: of.data.name for of in record.datasets if of.held_out is None}
    text = f"{listed(names.values())}, each trained for {trained} steps with seeds {listed(map(str, record.seeds))}. "
    text += f"The last checkpoint {played}."
    for scale, name in scales.items():
        text += f" Score{f' on {name}' if len(scales) > 1 else ''}: {scale}."
    commits = dict.fromkeys(run.commit or "unknown" for run in record.trials)
    jobs = [f", {max(counts)} runs at a time" for counts in [[run.jobs for run in record.trials if run.jobs]] if counts]
    machines = {f"{describe_hardware(run.hardware)}; {describe_versions(run.versions)}.": None for run in record.trials}
    return [
        text,
        METHOD,
        " ".join([f"Made by `{record.command}` at commit {listed(commits)}{''.join(jobs)}.", *machines]),
    ]


def _over_datasets(summary: Summary) -> Section:
    record, overall, names, title = summary.record, summary.overall(), summary.names, "All datasets"
    main = {dataset.data.name: summary.measures(dataset)[0] for dataset in record.datasets}
    scores = _by_variant("score", {name: _cells(measure) for name, measure in main.items()}, names)
    if overall is None:
        return Section(title, "Fewer than two datasets have scores of every variant to aggregate.", tables=(scores,))
    total = len(record.seeds) * len(record.datasets)
    marks = {label: f", {count} of {total} failed" for label, count in overall.failed.items()}
    verdicts = {
        label: (is_significant(overall.p_values.get(label)), of.score > 0.5)
        for label, of in overall.improvements.items()
    }
    probability = "{:.2f}".format
    columns = {
        "interquartile mean": {
            label: format_summary(mean) + marks.get(label, "") for label, mean in overall.aggregates.items()
        },
        f"probability of improvement on {names[summary.reference]}": {
            label: f"{format_summary(of, probability)}, {SIGNIFICANCE[verdicts[label][0]]}"
            for label, of in overall.improvements.items()
        },
    }
    complete = [label for label in overall.aggregates if label not in overall.failed] or list(overall.aggregates)
    best = max(complete, key=lambda label: overall.aggregates[label].score)
    runs = counted(sum(map(len, overall.scores[best].values())), "run")
    finding = f"{names[best]} has the highest interquartile mean over {len(overall.datasets)} datasets: "
    finding += f"{_describe_summary(overall.aggregates[best], '{:.1f}'.format, runs)}."
    left_out = [name for name in main if name not in overall.datasets]
    left_out += [names[label] for label in names if label not in overall.scores]
    notes = (f"Left out for lack of results: {listed(left_out)}.",) * bool(left_out)
    tables = _by_variant("over datasets", columns, names), scores
    return Section(title, finding, _describe_verdicts(summary, verdicts, overall.failed), tables, notes)


def _on_dataset(summary: Summary, dataset: ComparedDataset) -> Section:
    trials, measures, names = summary.trials(dataset), summary.measures(dataset), summary.names
    notes = _notes(summary, dataset)
    if not trials:
        return Section(dataset.data.name, "No run has a result.", notes=notes)
    shown = [measure for measure in measures if measure.target is None or measure.target.roles != ("spread",)]
    main, columns = measures[0], {measures[0].title: _cells(measures[0])}
    differences = main.differences(summary.reference)
    verdicts = {label: (is_significant(of.p_value), of.difference > 0) for label, of in differences.items()}
    if any(verdict is not None for verdict, _ in verdicts.values()):
        columns[f"difference from {names[summary.reference]}"] = {
            label: format_summary(SeedScores(of.difference, of.low, of.high, "95% interval"), main.change)
            + f", {SIGNIFICANCE[verdicts[label][0]]}"
            for label, of in differences.items()
        }
    columns |= {measure.title: _cells(measure) for measure in shown}
    errors = summary.target_errors(dataset)
    columns["target-return error, %"] = {label: format_summary(error) for label, error in errors.items()}
    tasks: dict[str, dict[str, str]] = {}
    for label, results in main.results.items():
        for task, scores in enumerate(zip(*(result.task_scores for result in results), strict=True)):
            tasks.setdefault(f"task {task + 1}", {})[label] = _cell(main, label, scores)
    curves = {label: scores for label, (_, scores) in summary.learning_curves(dataset).items()}
    checkpoints = {
        "last": {label: format_summary(summarise_seeds(scores[:, -1])) for label, scores in curves.items()},
        "best of each seed (biased upwards)": {
            label: format_summary(summarise_seeds(scores.max(axis=1))) for label, scores in curves.items()
        },
    }
    costs: dict[str, dict[str, str]] = {}
    for column, (attribute, text, over_seeds) in COSTS.items():
        known = {label: [cost for run in runs if (cost := getattr(run, attribute))] for label, runs in trials.items()}
        costs[column] = {label: text.format(over_seeds(values)) for label, values in known.items() if values}
    tables = [_by_variant("score" if dataset.held_out is None else dataset.held_out.dataset, columns, names)]
    tables.append(_by_variant(f"score by task, {main.title}", tasks, names))
    for name in dict.fromkeys(name for measure in shown for name in measure.metric_names):
        metrics = {measure.title: measure.metric(name) for measure in shown}
        cells = {
            head: {label: format_summary(of, format_number) for label, of in by.items()} for head, by in metrics.items()
        }
        tables.append(_by_variant(name, cells, names))
    episodes = counted(summary.record.checkpoint_episodes, "episode")
    tables += [_by_variant(f"checkpoint, {episodes}", checkpoints, names), _by_variant("cost", costs, names)]
    tables.append(_detail_table(summary, dataset, measures))
    return Section(
        dataset.data.name,
        _finding(summary, main),
        _describe_verdicts(summary, verdicts, main.failed),
        tuple(table for table in tables if table.rows),
        notes,
    )


def _finding(summary: Summary, measure: Measure) -> str:
    """Which variant is best by a measure; one with failed runs only if there is no other."""
    complete = [label for label in measure.values if label not in measure.failed] or list(measure.values)
    best = (min if measure.lower_is_better else max)(complete, key=lambda label: fmean(measure.values[label]))
    score = _describe_summary(measure.summary(best), measure.number, counted(len(measure.values[best]), "seed"))
    at_target = f" at {measure.title}" * (measure.title != "score")
    does = f"has the lowest {measure.title}" if measure.lower_is_better else f"scores highest{at_target}"
    return f"{summary.names[best]} {does}: {score}."


SIGNIFICANCE = {None: "not tested", True: "significant", False: "not significant"}


def _describe_verdicts(
    summary: Summary, verdicts: Mapping[str, tuple[bool | None, bool]], failed: Mapping[str, int]
) -> str:
    """Significance and sign of the differences from the reference in sentences."""
    kinds: dict[str, list[str]] = {}
    for label, (significant, higher) in verdicts.items():
        kind = f"significantly {'higher' if higher else 'lower'}" if significant else "no significant difference"
        kinds.setdefault("not tested" if significant is None else kind, []).append(summary.names[label])
    untested = kinds.pop("not tested", [])
    parts = [f"{kind}: {listed(kinds[kind])}" for kind in sorted(kinds, reverse=True)]
    texts = [f"Compared with {summary.names[summary.reference]}, {'; '.join(parts)}."] * bool(parts)
    if failed:
        runs = listed(f"{summary.names[label]} ({counted(count, 'run')})" for label, count in failed.items())
        texts.append(f"Runs failed, so that differences are not tested: {runs}.")
    elif untested:
        texts.append("Differences are not tested with fewer than five seeds.")
    return " ".join(texts)


def _by_variant(title: str, columns: Columns, names: Mapping[str, str]) -> Table:
    """A table of one row per variant, without empty columns and rows."""
    filled = {head: cells for head, cells in columns.items() if any(cells.values())}
    labels = [label for label in names if any(cells.get(label) for cells in filled.values())]
    rows = [(names[label], *(cells.get(label, "") for cells in filled.values())) for label in labels]
    return Table(title, tuple(filled), tuple(rows))


def _cells(measure: Measure) -> dict[str, str]:
    return {label: _cell(measure, label, measure.values.get(label, ())) for label in measure.values | measure.failed}


def _cell(measure: Measure, label: str, values: Sequence[float]) -> str:
    """A mean with its interval or the value of every seed, and the number of failed runs."""
    failed, texts = measure.failed.get(label, 0), []
    if values:
        summary = measure.summary(label) if values is measure.values.get(label) else summarise_seeds(values)
        if summary.spread == "95% interval" and not failed:
            texts.append(format_summary(summary, measure.number))
        else:
            seeds = f" ({', '.join(map(measure.number, values))})" if len(values) > 1 else ""
            texts.append(measure.number(summary.score) + seeds)
    texts += [f"{failed} of {failed + len(measure.values.get(label, ()))} failed"] * bool(failed)
    return ", ".join(texts)


def _detail_table(summary: Summary, dataset: ComparedDataset, measures: Sequence[Measure]) -> Table:
    """Scores of the seeds, their standard deviation, and returns, at every target."""
    rows = []
    for label, name in summary.names.items():
        for measure in measures:
            results = measure.results.get(label, ())
            cloned = any(result.target_return is None for result in results)
            if not results or (cloned and measure is not measures[0]):
                continue
            returns = np.concatenate([result.returns for result in results])
            values = returns.mean(), *np.quantile(returns, [0.5, 0.1, 0.9])
            mean, middle, low, high = (format_return(float(value), dataset.data) for value in values)
            deviation = deviation_over_seeds([dataset.data.normalised(np.array(of.returns)) for of in results])
            spread = "" if deviation is None else f"{deviation[0]:.1f} ({deviation[1]:.1f})"
            seeds = ", ".join(map(measure.number, measure.values[label]))
            target = "none" if cloned else measure.title.removeprefix("target ")
            rows.append((name, target, seeds, spread, mean, middle, f"{low} to {high}"))
    head = ("target", "score of each seed", "sd over seeds (of the agents)", "mean return", "median", "10% to 90%")
    return Table("every target", head, tuple(rows), detail=True)


def _notes(summary: Summary, dataset: ComparedDataset) -> tuple[str, ...]:
    """Failed runs, and what to know before trusting the scores, with the variants concerned."""
    trials, concerned = summary.trials(dataset), dict[str, list[str]]()
    failures = [run for run in summary.record.failed if run.dataset == dataset.data.name]
    notes = [f"Failed: {summary.names[run.variant]}, seed {run.seed}: {run.error}" for run in failures]
    if dataset.held_out is None:
        best = float(dataset.data.normalised(dataset.data.return_max))
        notes.append(f"Episodes of the data score {dataset.data.score_mean:.1f} on average and {best:.1f} at best.")
        notes += [dataset.data.comparable] * bool(dataset.data.comparable)
    for label, runs in trials.items():
        for remark in dict.fromkeys(remark for run in runs for remark in run.remarks):
            concerned.setdefault(remark, []).append(summary.names[label])
    for remark, names in concerned.items():
        notes.append(f"{listed(names)}: {remark}" if len(names) < len(trials) else remark)
    return (*notes, *dataset.data.notes)


def format_summary(summary: SeedScores, number: Callable[[float], str] = "{:.1f}".format) -> str:
    """A mean with its interval, `81.2 [78.0, 84.1]`, or the range of few seeds, `81.2 (78.0 to 84.1)`."""
    if summary.low is None or summary.high is None:
        return number(summary.score)
    low, high = number(summary.low), number(summary.high)
    return f"{number(summary.score)} " + (f"[{low}, {high}]" if summary.spread != "range" else f"({low} to {high})")


def _describe_summary(summary: SeedScores, number: Callable[[float], str], count: str) -> str:
    """`82.0 (95% interval 80.0 to 84.0, 5 seeds)`."""
    if summary.low is None or summary.high is None:
        return f"{number(summary.score)} ({count})"
    return f"{number(summary.score)} ({summary.spread} {number(summary.low)} to {number(summary.high)}, {count})"


def listed(names: Iterable[str]) -> str:
    """`a, b and c`."""
    *most, last = [*names] or [""]
    return f"{', '.join(most)} and {last}" if most else last
