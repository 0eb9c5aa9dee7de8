"""The plan of a comparison: its runs and the target returns of each.

Everything that can be checked in advance is checked here, before hours of work.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic.dataclasses
import torch
from pydantic import Field

from decision_rnn.comparison.executors import Task
from decision_rnn.comparison.record import ComparedDataset, HeldOut, Role, Target, Trial
from decision_rnn.comparison.variants import Variant
from decision_rnn.config import CHOICES, RunConfig
from decision_rnn.data.dataset import Dataset, open_dataset
from decision_rnn.data.info import warn_of_shift
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.environments.registry import registered
from decision_rnn.evaluation.actor import actor_of
from decision_rnn.evaluation.evaluate import evaluation_environment, measured_at, state_bytes, summarise_data
from decision_rnn.evaluation.held_out import held_out_score, reference_actions, score_predictions
from decision_rnn.evaluation.metrics import METRICS
from decision_rnn.evaluation.results import Measurements, stored_result
from decision_rnn.evaluation.targets import paper_returns, spread_targets
from decision_rnn.runs.checkpoint import TrainedAgent, changes_since, load_agent
from decision_rnn.runs.folder import check_resumed_run, final_step, write_config
from decision_rnn.training.prepare import check_config, make_agent, open_validation, select_episodes
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import warn
from decision_rnn.utils.parsing import STRICT, NonNegativeInt, PositiveInt

SPREAD = 5
"""Number of target returns spread over the data's range to measure the target-return error."""
OTHER = "use another --output (output= in Python)"


class HeldOutEvaluator:
    """Measures trained agents on the same held-out episodes, those of the `validation` of the first variant.

    `record` has these episodes, and the errors of the references, fitted on the training data of the first variant.
    InputError if the episodes are not available, too few, of another task or those that are trained on, or if their
    actions never change.
    """

    def __init__(self, variants: Sequence[Variant], dataset: Dataset) -> None:
        config, self.store = replace(variants[0].config, dataset=dataset.name), dataset.store
        self.episodes, training = open_validation(config, self.store), select_episodes(config, self.store)
        if self.episodes.fingerprint == training.fingerprint:
            raise InputError(f"validation {config.validation} holds the episodes that are trained on. Name others.")
        with torch.random.fork_rng():
            untrained = TrainedAgent(make_agent(config, training, 1.0), config, dataset.spec, 0, 0.0)
        predictions = reference_actions(untrained, self.episodes, training)
        score = score_predictions(untrained, self.episodes, predictions)
        if not any(score.variance):
            raise InputError(f"the actions of validation {config.validation} never change. Name other episodes.")
        references = {name: tuple(score.episode_errors(name).tolist()) for name in score.errors}
        described = str(config.validation), self.episodes.fingerprint, score.measure, score.steps
        self.record = HeldOut(*described, references)

    def measure(self, run: Path, config: RunConfig) -> dict[str, Any] | None:
        """What a `Trial` holds of the last checkpoint of a run that plays nothing, but for the time of an action, which
        differs whenever it is measured; None if the checkpoint is not there or of no use."""
        checkpoint = run / "checkpoints" / str(final_step(run, config))
        if not checkpoint.is_dir():
            return None
        try:
            trained = replace(load_agent(checkpoint), config=config)  # which may have it act in another way by now
            score = held_out_score(trained, self.episodes, select_episodes(config, self.store), references=False)
        except InputError as error:  # it has diverged, or is damaged: resuming the run fails and names the file
            warn(f"skipped: {error}")
            return None
        return {
            "held_out": tuple(score.episode_errors().tolist()),
            "state_bytes": state_bytes(actor_of(trained, config.evaluation)),
            **measured_at(trained),
        }


@dataclass(frozen=True, kw_only=True)
class PlannedTrial:
    """One run of a comparison: its variant's label, its configuration, and its folder `run`, relative to `output`.

    `comparable` says what its scores may be compared with, and `held_out` measures its agent on held-out episodes, if
    there are any.
    """

    variant: str
    config: RunConfig
    output: Path
    run: str
    data: DatasetSpec
    comparable: str
    held_out: HeldOutEvaluator | None

    def task(self) -> Task:
        """What an executor needs to train and evaluate the run, with its configuration written to a file."""
        file = self.output / "configs" / f"{self.run}.yaml"  # the run may be in progress in its own folder
        file.parent.mkdir(parents=True, exist_ok=True)
        write_config(self.config, file.parent, file.name)
        return Task(
            (self.output / self.run).absolute(), file.absolute(), self.config.plugins, self.config.training.device
        )

    def collect(self) -> Trial | None:
        """The results in the run's folder, or None if it is not finished."""
        folder, config, played = self.output / self.run, self.config, dict[str, Any]()
        if config.evaluation.episodes:
            result = stored_result(folder, config, self.data, final_step(folder, config), config.evaluation)
            if result is None:
                return None
            played = {field.name: getattr(result, field.name) for field in fields(Measurements)}
            if self.comparable != self.data.comparable:
                played["remarks"] = (self.comparable, *result.remarks)
        predicted = {} if self.held_out is None else self.held_out.measure(folder, config)
        if predicted is None:
            return None
        about: Any = {"variant": self.variant, "dataset": self.data.name, "seed": config.seed, "run": self.run}
        return Trial(**about, **{**predicted, **played})


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=STRICT)
class Plan:
    """What is compared, as the arguments of `compare`: complete variants, full names of the datasets, all seeds; `keys`
    are those of a configuration file that makes the same plan."""

    variants: tuple[Variant, ...]
    datasets: Annotated[tuple[str, ...], Field(min_length=1)]
    seeds: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)]
    margin: Annotated[float, Field(gt=0)] | None
    output: Path
    jobs: PositiveInt | None
    executor: Literal["local", "ray"]
    keys: dict[str, Any]

    def trials(self) -> tuple[tuple[ComparedDataset, ...], tuple[PlannedTrial, ...]]:
        """The datasets with their target returns, and all runs, seed by seed, so that an interrupted comparison has all
        variants of its first seeds. Missing datasets are created. InputError if a dataset or its environment is not
        available, a run is impossible as it is configured, or its folder holds one of another configuration or data."""
        first = self.variants[0].config
        for variant in self.variants:
            check_config(variant.config)
        if first.path is not None and len(self.datasets) > 1:
            raise InputError("path is the file of one dataset: name one dataset, or put the files where they are found")
        opened = {name: open_dataset(name, first.path, first.partial) for name in self.datasets}
        compared = {name: self._compare_on(dataset) for name, dataset in opened.items()}
        if self.margin is not None and not any(dataset.targets for dataset, _ in compared.values()):
            raise InputError("margin is in points of score, which held-out episodes do not have: leave it out")
        trials = []
        for seed, name, variant in itertools.product(self.seeds, self.datasets, self.variants):
            (dataset, held_out), run = compared[name], f"{name.replace('/', '-')}/{variant.label}-seed{seed}"
            config = replace(variant.config, dataset=name, seed=seed)
            if (self.output / run / "config.yaml").is_file():
                config = check_resumed_run(config, self.output / run, OTHER)
            if changed := ", ".join(changes_since(self.output / run, dataset.data)):
                raise InputError(f"{self.output / run} was trained with another {changed}: {OTHER}, or remove it")
            returns = tuple(each.target_return for each in dataset.targets if each.target_return is not None)
            played: Any = {"target_returns": returns} if dataset.targets else {"episodes": 0, "checkpoint_episodes": 0}
            config = replace(config, evaluation=replace(config.evaluation, **played))
            comparable = summarise_data(opened[name].spec, config).comparable
            shared: Any = {"output": self.output, "data": dataset.data, "held_out": held_out}
            trials.append(PlannedTrial(variant=variant.label, config=config, run=run, comparable=comparable, **shared))
        return tuple(dataset for dataset, _ in compared.values()), tuple(trials)

    def _compare_on(self, dataset: Dataset) -> tuple[ComparedDataset, HeldOutEvaluator | None]:
        """A dataset with its targets, none if nothing is played, and what measures agents on held-out episodes, if any;
        InputError if a variant cannot be trained on it."""
        name, store, first = dataset.name, dataset.store, self.variants[0].config
        for variant in self.variants:
            config = replace(variant.config, dataset=name)
            try:
                check_importable(config, config.evaluation.environment_id or dataset.spec.environment_id)
                with torch.random.fork_rng():
                    agent = make_agent(config, select_episodes(config, store), 1.0)
                agent.check_acting(config.evaluation.actions, config.evaluation.inference)
            except InputError as error:
                raise InputError(f"{variant.label} cannot be trained on {name}: {error}") from None
        held_out = HeldOutEvaluator(self.variants, dataset) if first.validation else None
        for warning in warn_of_shift(store, held_out.episodes) if held_out else ():
            warn(f"warning: {first.validation}: {warning}")
        data = summarise_data(dataset.spec, first)
        targets: tuple[Target, ...] = ()
        if first.evaluation.episodes and (first.evaluation.environment_id or data.environment_id):
            evaluation_environment(first.evaluation, dataset.spec)
            targets = _targets([each.config for each in self.variants], data)
        elif first.validation is None:
            raise InputError(
                f"{name} has no environment to play in, or evaluation.episodes is 0: name held-out episodes with "
                "--validation (validation= in Python), such as those that `decision-rnn data split` makes"
            )
        return ComparedDataset(data=data, targets=targets, held_out=held_out.record if held_out else None), held_out


def check_importable(config: RunConfig, environment_id: str | None) -> None:
    """InputError if a run needs a class of this notebook or script, which the run's own process cannot import."""
    entry: Any = getattr(registered(environment_id), "entry_point", "")
    own = f"{getattr(entry, '__module__', '')}:{getattr(entry, '__qualname__', '')}"
    places = {"environment": entry if isinstance(entry, str) else own}
    places |= {key: kinds.places[getattr(config, key).name] for key, kinds in CHOICES.items()}
    places |= {f"metric {name}": METRICS.places[name] for name in config.evaluation.metrics}
    for subject, place in places.items():
        if place.startswith("__main__:"):
            raise InputError(
                f"the {subject} is {place[9:]} of this notebook or script, which the runs, in other processes, cannot "
                "import: put it into a module and name that in plugins, such as plugins=['mine']"
            )


def _targets(configs: Sequence[RunConfig], data: DatasetSpec) -> tuple[Target, ...]:
    """Targets on a dataset: the user's or the paper's returns, the data's best, and returns spread over its range.

    `AUTO`, or a paper's return beyond the data, is both if every variant sees it limited, as it would the data's best;
    the first target is both if the variants are conditioned on steps alone.
    """
    low, high = data.return_min, data.return_max
    paper = paper_returns(configs[0].evaluation, data, configs)
    conditioned = [config for config in configs if config.condition.takes_target]
    limited = conditioned and all(config.condition.limited for config in conditioned)
    capped = [target for target in paper if limited and target > high]
    returns = any(config.takes_return for config in configs)
    best = high if returns or not conditioned else paper[0]
    roles: dict[float, list[Role]] = {target: ["paper"] for target in paper}
    roles.setdefault(high if high in paper else min(capped, default=best), []).append("best")
    for target in spread_targets(low, high, SPREAD) if returns and low < high else ():
        roles.setdefault(target, []).append("spread")
    return tuple(
        Target(target_return=target, roles=tuple(names), in_range=data.contains(target) if returns else None)
        for target, names in roles.items()
    )
