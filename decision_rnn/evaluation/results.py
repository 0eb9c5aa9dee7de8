"""Results: the record of an evaluation, its table, and its file in the run's folder.

    <run>/results/step-10000-recurrent-100-episodes-1a2b3c4d.json

A result is identified by its key: the run's configuration, the data's fingerprint, the checkpoint's step and the
protocol. Results with different keys have different files, with a hash of the key in the name.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import scipy
from pydantic import BeforeValidator, PlainSerializer

from decision_rnn.agent.conditions.base import ConditionConfig
from decision_rnn.config import EvaluationConfig, RunConfig, TrainingConfig, from_dict, to_dict
from decision_rnn.data.cache import sha256_of_json
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.evaluation.held_out import HeldOutScore
from decision_rnn.evaluation.targets import evaluated_returns
from decision_rnn.runs.folder import MAY_CHANGE
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import new_file
from decision_rnn.utils.messages import pluralize, warn
from decision_rnn.utils.parsing import TargetReturn, format_target, read_json, to_json

PACKAGES = ("decision-rnn", "torch", "numpy", "gymnasium", "mujoco")
"""The packages whose versions a result records, because scores depend on them."""
ROUNDING = 1e-4
"""The relative difference up to which returns-to-go in float32 are the same."""
SCALE = attrgetter("environment_id", "reference_min", "reference_max")
"""What scores depend on besides the episodes that a fingerprint identifies."""

SavedConfig = Annotated[
    RunConfig,
    BeforeValidator(lambda value: from_dict(value) if isinstance(value, dict) else value),
    PlainSerializer(to_dict),
]


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How an agent was evaluated; what is not described here is as in `EvaluationConfig`.

    Attributes:
        window: Number of steps in the window; None where the state is carried.
        target_returns: The target returns; (None,) in behaviour cloning.
    """

    inference: Literal["recurrent", "window"]
    window: int | None
    episodes: int
    target_returns: tuple[TargetReturn | None, ...]
    seed: int
    actions: Literal["greedy", "sampled"] = "greedy"
    max_episode_steps: int | None = None
    environment_id: str | None = None
    metrics: tuple[str, ...] = ()

    @classmethod
    def from_settings(cls, settings: EvaluationConfig, data: DatasetSpec, config: RunConfig) -> "Protocol":
        """The protocol of an evaluation with these settings, for an agent trained on these data."""
        values = {name: getattr(settings, name) for name in cls.__dataclass_fields__}
        values["window"] = settings.window if settings.inference == "window" else None
        takes_target = config.condition.takes_target
        values["target_returns"] = evaluated_returns(settings, data, config) if takes_target else (None,)
        values["metrics"] = tuple(dict.fromkeys(settings.metrics))
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class MetricResult:
    """The mean of a metric over episodes, its standard deviation, and its value in every episode."""

    mean: float
    sd: float
    values: tuple[float, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class TargetResult:
    """Returns and scores of the episodes played for one target return, which is None in behaviour cloning.

    Standard deviations are over episodes; lengths are in steps.

    Attributes:
        in_range: Whether the target return is inside the data's range; None without one.
        returns: Undiscounted return of every episode, rounded to three decimals, more if the reference scores are close
            together.
        initial_return_to_go: The return-to-go that the agent saw at the first step of an episode; None if it sees none,
            and for exported policies.
        task_scores: Mean normalised score of the episodes of each task, where the environment has several in turn
            (`DatasetSpec.tasks`) and all were played.
    """

    target_return: TargetReturn | None
    in_range: bool | None
    return_mean: float
    return_sd: float
    score_mean: float
    score_sd: float
    length_mean: float
    returns: tuple[float, ...] = field(repr=False)
    initial_return_to_go: float | None = None
    task_scores: tuple[float, ...] = ()
    metrics: dict[str, MetricResult] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The target return as users write it, or `BC` for behaviour cloning."""
        return "BC" if self.target_return is None else format_target(self.target_return)

    def notes(self, data: DatasetSpec) -> Iterator[str]:
        """Lines below the table: scores by task, the interval of a success rate, the limit of the return-to-go."""
        if self.task_scores:
            scores = ", ".join(f"{score:.1f}" for score in self.task_scores)
            yield f"{self.name}: tasks 1 to {len(self.task_scores)} score {scores}"
        count, successes = len(self.returns), self.returns.count(data.reference_max)
        if count > 1 and {data.reference_min, data.reference_max}.issuperset(self.returns):
            low, high = scipy.stats.binomtest(successes, count).proportion_ci(method="wilson")
            yield (
                f"{self.name}: {successes}/{count} episodes score 100, the others 0 (95% Wilson interval "
                f"{100 * low:.1f} to {100 * high:.1f} for this agent; variation between seeds is larger)"
            )
        limit, target = self.initial_return_to_go, self.target_return
        if limit is not None and target is not None and not math.isclose(limit, target, rel_tol=ROUNDING):
            yield f"{self.name}: return-to-go limited to {limit:,.4g} at first"


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """What an evaluation of the checkpoint of a step measures, by target return, and where.

    Attributes:
        remarks: Warnings about the scores.
        training_seconds: Wall time of the training up to that step.
        action_microseconds: Median time of one action in one environment on one thread; None for exported policies.
        state_bytes: Size of the agent's state for one environment; None likewise.
        commit: Commit of the source tree that evaluated it; None for an installed package.
        versions: Versions of Python and `PACKAGES`.
    """

    step: int
    targets: tuple[TargetResult, ...] = ()
    remarks: tuple[str, ...] = ()
    training_seconds: float
    evaluation_seconds: float = 0.0
    parameters: int
    backbone_parameters: int | None
    action_microseconds: float | None = None
    state_bytes: int | None = None
    commit: str | None
    versions: dict[str, str]
    hardware: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Result(Measurements):
    """One evaluation of one checkpoint of a run.

    `held_out` is the score on held-out episodes, if there are any, `schema` the version of the file format.
    """

    config: SavedConfig
    dataset: DatasetSpec
    protocol: Protocol
    held_out: HeldOutScore | None = None
    schema: Literal[4] = 4

    @property
    def key(self) -> dict[str, Any]:
        """What identifies the result: all that its scores depend on.

        The configuration has the defaults where the weights do not depend on it: in the evaluation settings, and in
        `MAY_CHANGE`, such as the data's path and `validation`. Plugins are in it, in any order.
        """
        plugins = tuple(sorted(set(self.config.plugins)))
        config = to_dict(replace(self.config, evaluation=EvaluationConfig(), plugins=plugins))
        for section, _, name in (key.rpartition(".") for key in MAY_CHANGE - {"plugins"}):
            values, defaults = (config["training"], TrainingConfig) if section else (config, RunConfig)
            values[name] = getattr(defaults, name)
        fingerprint, protocol = self.dataset.fingerprint, asdict(self.protocol)
        key = {"config": config, "fingerprint": fingerprint, "step": self.step, "protocol": protocol}
        return key if self.held_out is None else key | {"held_out": self.held_out.fingerprint}

    def scalars(self, kind: str) -> dict[str, float]:
        """The scores and metrics as loggers show them: by tag, such as `evaluation/score_at_3600`."""
        scalars = {}
        for target in self.targets:
            suffix = "" if target.target_return is None else f"_at_{target.name}"
            scalars[f"{kind}/score{suffix}"] = target.score_mean
            scalars |= {f"{kind}/{name}{suffix}": metric.mean for name, metric in target.metrics.items()}
        return scalars

    def __str__(self) -> str:
        """The table that commands print."""
        data, protocol, targets = self.dataset, self.protocol, self.targets
        if not targets:
            return str(self.held_out)
        spread, environment_id = protocol.episodes > 1, protocol.environment_id or data.environment_id
        played = f"{pluralize(protocol.episodes, 'episode')} {'of BC' if targets[0].name == 'BC' else 'per target'}"
        subject = f"{self.config.backbone.name} on {data.name}, step {self.step}"
        title = f"{subject}, {played}, {describe_acting(protocol, self.config.condition)}, {environment_id}"

        def cell(mean: float, sd: float, text: Callable[[float], str]) -> str:
            return f"{text(mean)} ± {text(sd)}" if spread else text(mean)

        to_text = partial(format_return, data=data)
        rows = [("target", "return", "normalised score", "length", *protocol.metrics, "")]
        for target in targets:
            place = {None: "", True: "inside the data", False: "beyond the data"}[target.in_range]
            returns = cell(target.return_mean, target.return_sd, to_text)
            scores = cell(target.score_mean, target.score_sd, "{:.1f}".format)
            measured = [cell(metric.mean, metric.sd, "{:.4g}".format) for metric in target.metrics.values()]
            place = "the data's best" if target.target_return == data.return_max else place
            rows.append((target.name, returns, scores, f"{target.length_mean:.0f}", *measured, place))
        empty = [""] * (len(protocol.metrics) + 2)
        rows.append(("(the data)", to_text(data.return_mean), f"{data.score_mean:.1f}", *empty))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ["  ".join([*map(str.rjust, row[:-1], widths), row[-1]]).rstrip() for row in rows]
        scale = f"{'± is one standard deviation over episodes; ' * spread}score {data.score_meaning}"
        notes = [note for target in targets for note in target.notes(data)]
        held_out = str(self.held_out or "")
        lines = [title, *table, scale, *notes, data.comparable, *data.notes, *self.remarks, held_out]
        return "\n".join(filter(None, lines))

    __repr__ = __str__  # as a notebook shows it


def describe_acting(settings: EvaluationConfig | Protocol, condition: ConditionConfig | None = None) -> str:
    """Whether an agent carries its state or re-runs a window of steps, whether it samples its actions, and the acting
    options of its condition that are not the defaults."""
    words = [f"window of {settings.window}" if settings.inference == "window" else "carried state"]
    words += ["sampled actions"] * (settings.actions == "sampled")
    for name in condition.acting if condition else ():
        if (value := getattr(condition, name)) != getattr(type(condition), name):
            words.append(f"{name} {value}".removesuffix(".0"))
    return ", ".join(words)


def format_return(value: float, data: DatasetSpec) -> str:
    """A return with as many decimals as the range of the data's returns asks for: one for returns in the thousands, two
    between 0 and 1."""
    spread = data.return_max - data.return_min or abs(value)
    places = max(1, 2 - math.floor(math.log10(spread))) if spread > 0 else 1
    return f"{value:.{places}f}"


def read_result(path: Path) -> Result:
    """Read a result file; InputError if it cannot be read."""
    return read_json(path, Result, "Delete it and evaluate the run again.")


def result_file(run: Path, result: Result) -> Path:
    """The path of a result's file in the folder of its run: step, protocol and a hash of the key."""
    digest = sha256_of_json(result.key)[:8]
    inference = "recurrent" if result.protocol.window is None else f"window-{result.protocol.window}"
    return run / "results" / f"step-{result.step}-{inference}-{result.protocol.episodes}-episodes-{digest}.json"


def write_result(run: Path, result: Result) -> Path:
    """Write a result into the folder `results` of its run, atomically; returns the path of the file."""
    path = result_file(run, result)
    with new_file(path) as new:
        new.write_text(json.dumps({"schema": result.schema, **to_json(result)}, indent=2, allow_nan=False) + "\n")
    return path


def stored_result(
    run: Path, config: RunConfig, data: DatasetSpec, step: int, settings: EvaluationConfig
) -> Result | None:
    """The result of a checkpoint in a run's folder; None if it was not evaluated with these settings on this scale."""
    protocol = Protocol.from_settings(settings, data, config)
    return next((result for result in results_of(run, config, data, step) if result.protocol == protocol), None)


def results_of(run: Path, config: RunConfig, data: DatasetSpec, step: int) -> Iterator[Result]:
    """The results of a checkpoint in a run's folder, newest first; unreadable files are skipped with a line on stderr.

    Keys are compared, not the hashes in file names: a result written before a configuration option existed matches a
    configuration in which the option has its default.
    """
    paths = (run / "results").glob(f"step-{step}-*.json")
    for path in sorted(paths, key=lambda path: (-path.stat().st_mtime_ns, path)):
        try:
            result = read_result(path)
        except InputError as error:
            warn(f"skipped: {error}")
            continue
        same = result.key == replace(result, config=config, dataset=data, step=step).key
        if same and SCALE(result.dataset) == SCALE(data):
            yield result
