"""The record of a comparison: the content of comparison.json, and how to read it.

It holds the measurements, trial by trial; the summaries in tables and on the page are computed from it (summary.py).
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from decision_rnn.data.summary import DataSummary
from decision_rnn.evaluation.results import Measurements, TargetResult
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.records import damaged, read_json, read_record, spelt

if TYPE_CHECKING:
    from decision_rnn.evaluation.statistics import SeedDifference

SCHEMA = 4
"""Schema of comparison.json; files of earlier versions are made again from the runs."""
LOG = "run.log"
"""The file in a trial's folder with what its processes printed, tracebacks included."""
EPISODE_COLUMNS = ("variant", "dataset", "seed", "target_return", "role", "in_range", "episode", "return", "score")
"""Columns of `Comparison.episode_table` and of episodes.csv, followed by the metrics."""

Role = Literal["paper", "best", "spread", "bc"]
"""Where a target return comes from: the `paper` of the task (or the user), the `best` return in the data, one of those
`spread` over the data's range, or `bc`, behaviour cloning, which has none."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A target return on a dataset, and whether it is inside the data's range; both None in behaviour cloning."""

    target_return: float | None
    roles: tuple[Role, ...]
    in_range: bool | None


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Episodes that are not trained on, by which agents are compared whose data name no environment.

    Attributes:
        dataset: Name of their dataset.
        fingerprint: SHA-256 of their contents.
        episodes: Their number.
        steps: The number of their steps.
        measure: What is compared: the `loss`, or the `squared_error` of the actions if the variants' objectives differ.
    """

    dataset: str
    fingerprint: str
    episodes: int
    steps: int
    measure: Literal["loss", "squared_error"]


@dataclass(frozen=True, kw_only=True)
class ComparedDataset:
    """A dataset of the comparison, and its distinct targets, those of the paper first; or, where it names no
    environment to play in, no target, and the held-out episodes."""

    data: DataSummary
    targets: tuple[Target, ...]
    held_out: HeldOut | None = None

    def with_results(self, trial: "Trial") -> tuple[tuple[Target, TargetResult], ...]:
        """Every target with the result of a trial; for behaviour cloning the single target with the role `bc`."""
        if [achieved.target_return for achieved in trial.targets] == [None]:
            return ((Target(target_return=None, roles=("bc",), in_range=None), trial.targets[0]),)
        achieved = {result.target_return: result for result in trial.targets}
        return tuple((target, achieved[target.target_return]) for target in self.targets)


@dataclass(frozen=True, kw_only=True)
class ComparedVariant:
    """A variant of the comparison.

    Attributes:
        label: Its name in every table.
        control: Whether it is a control, such as `bc`.
        config: Complete configuration of its run on the first dataset with the first seed, as plain JSON values.
    """

    label: str
    control: bool
    config: dict[str, Any]

    @property
    def window(self) -> int | None:
        """Number of steps that it re-runs for every action; None if its state is recurrent."""
        evaluation = self.config["evaluation"]
        return int(evaluation["window"]) if evaluation["inference"] == "window" else None

    @property
    def actions(self) -> str:
        """Whether its actions are `greedy` or `sampled`."""
        return str(self.config["evaluation"].get("actions", "greedy"))


@dataclass(frozen=True, kw_only=True)
class CheckpointScores:
    """An evaluation of one checkpoint, with fewer episodes than the final evaluation."""

    step: int
    targets: tuple[TargetResult, ...]


@dataclass(frozen=True, kw_only=True)
class Trial(Measurements):
    """One run of the comparison, a variant on a dataset with a seed, and the evaluation of its last checkpoint.

    Attributes:
        run: Folder of the run, relative to the comparison's.
        checkpoints: Results of every checkpoint, including the last, over `checkpoint_episodes` episodes each.
        loss: Training steps and the loss at each.
        held_out_loss: What `HeldOut.measure` says, of the last checkpoint on the held-out episodes; None if it played.
    """

    variant: str
    dataset: str
    seed: int
    run: str
    checkpoints: tuple[CheckpointScores, ...]
    loss: tuple[tuple[int, float], ...]
    held_out_loss: float | None = None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that failed: its folder, and its error in one line. The folder's run.log holds the traceback."""

    variant: str
    dataset: str
    seed: int
    run: str
    error: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The results of a comparison of variants x datasets x seeds.

    Attributes:
        command: The command that made it, to be run again.
        seeds: Seeds of the runs of every variant on every dataset.
        episodes: Episodes of the last checkpoint, for each target.
        checkpoint_episodes: Episodes with which every checkpoint is evaluated, for each target; 0 for none.
        datasets: The datasets, in the order given.
        variants: The variants, in the order given, controls last.
        trials: The runs that have a result.
        failed: The runs that failed.
    """

    command: str
    seeds: tuple[int, ...]
    episodes: int
    checkpoint_episodes: int
    datasets: tuple[ComparedDataset, ...]
    variants: tuple[ComparedVariant, ...]
    trials: tuple[Trial, ...]
    failed: tuple[Failure, ...]

    def trials_of(self, variant: str, dataset: str) -> tuple[Trial, ...]:
        """The runs of a variant on a dataset, by seed."""
        found = [trial for trial in self.trials if (trial.variant, trial.dataset) == (variant, dataset)]
        return tuple(sorted(found, key=lambda trial: trial.seed))

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics that were measured besides the return."""
        return list(dict.fromkeys(name for trial in self.trials for target in trial.targets for name in target.metrics))

    def table(self) -> list[dict[str, Any]]:
        """A row for every variant at every target of every dataset, ready for `pandas.DataFrame`.

        `score` is the mean over the seeds, between `low` and `high`, which are its 95% interval or, below five seeds,
        the range (`spread`). `difference` is from the variant `reference`, with Welch's 95% interval; `p_value` is
        adjusted over the variants, and `verdict` says `better`, `worse` or `no difference shown`; these are None below
        five seeds. `target_return` is None for behaviour cloning. Every metric has columns of its own: its mean, such
        as `success`, `success_low` and `success_high`. Where nothing is played, a row for every variant has, in place
        of target and score, the `held_out_loss` or, where objectives differ, `held_out_squared_error`: lower is better.
        """
        from decision_rnn.comparison.summary import summarise  # imported here to avoid a cycle
        from decision_rnn.comparison.verdicts import differences, held_out_differences, reference
        from decision_rnn.evaluation.statistics import summarise_seeds

        controls = {variant.label: variant.control for variant in self.variants}
        summaries, rows = summarise(self), []
        for dataset in self.datasets:
            found = [summary for summary in summaries if summary.dataset == dataset.data.name]
            for summary in found:
                label, seeds = summary.variant, {"seeds": len(summary.trials)}
                of_variant = {"dataset": summary.dataset, "variant": label, "control": controls[label]}
                for of in summary.targets:
                    target = {
                        "target_return": of.target.target_return,
                        "role": "+".join(of.target.roles),
                        "in_range": of.target.in_range,
                    }
                    than = _columns(reference(found), differences(found, of.target).get(label))
                    rows.append({**of_variant, **target, **seeds, **asdict(of.scores), **than, **of.metric_columns()})
                if dataset.held_out is not None:
                    loss = asdict(summarise_seeds(summary.held_out_losses))
                    named = {f"held_out_{dataset.held_out.measure}": loss.pop("score")}
                    than = _columns(reference(found), held_out_differences(found).get(label))
                    rows.append({**of_variant, **seeds, **named, **loss, **than})
        return rows

    def episode_table(self) -> list[dict[str, Any]]:
        """A row for every episode of the last checkpoints, as in episodes.csv."""
        datasets = {dataset.data.name: dataset for dataset in self.datasets}
        return [
            {
                "variant": trial.variant,
                "dataset": trial.dataset,
                "seed": trial.seed,
                "target_return": target.target_return,
                "role": "+".join(target.roles),
                "in_range": target.in_range,
                "episode": number,
                "return": value,
                "score": round(float(datasets[trial.dataset].data.normalised(value)), 4),
                **{name: metric.values[number] for name, metric in achieved.metrics.items()},
            }
            for trial in self.trials
            for target, achieved in datasets[trial.dataset].with_results(trial)
            for number, value in enumerate(achieved.returns)
        ]

    def __str__(self) -> str:
        """The tables that `compare` prints, in Markdown."""
        from decision_rnn.comparison.report.markdown import format_comparison  # imported here to avoid a cycle

        return format_comparison(self)

    def to_dict(self) -> dict[str, Any]:
        """The content of comparison.json, as plain JSON values: the rows of `table` are in `summary`."""
        return {"schema": SCHEMA, **spelt({**asdict(self), "summary": self.table()})}


def _columns(reference: str, than: "SeedDifference | None") -> dict[str, Any]:
    """The columns of `Comparison.table` on a difference from the reference."""
    return {
        "reference": reference,
        "difference": than and than.difference,
        "difference_low": than and than.low,
        "difference_high": than and than.high,
        "p_value": than and than.p_value,
        "verdict": than and than.verdict,
    }


def read_comparison(path: Path | str) -> Comparison:
    """Read a comparison from its folder or its comparison.json.

    Args:
        path: The folder that `compare` wrote, or its comparison.json.

    Returns:
        The comparison: `.table()` has a row for every variant at every target, with intervals and verdicts,
        `.episode_table()` one for every episode, and `.trials` are the runs.

    Raises:
        InputError: If there is none, or of another version.
    """
    path = Path(path)
    file = path / "comparison.json" if path.is_dir() else path
    remedy = "name the folder of a comparison, or run its command again, which makes the file again from the runs"
    data = read_json(file, remedy)
    schema = data.get("schema", 1) if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise InputError(f"{file} is a comparison of schema {schema}, of which this version knows {SCHEMA}: {remedy}")
    data["variants"] = spelt(data.get("variants"))  # configurations are as their files spell them
    try:
        return read_record(data, Comparison)
    except ValueError as error:
        raise damaged(str(file), error, remedy) from None
