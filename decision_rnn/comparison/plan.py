"""The plan of a comparison: its runs and the target returns of each.

Everything that can be checked in advance is checked here, before hours of work.
"""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
import yaml

from decision_rnn.agent import DecisionAgent, agent_spec
from decision_rnn.comparison.executors import Task
from decision_rnn.comparison.held_out import HeldOutLoss, measure_unplayed
from decision_rnn.comparison.record import CheckpointScores, ComparedDataset, Role, Target, Trial
from decision_rnn.comparison.variants import Variant
from decision_rnn.config import RunConfig, to_dict
from decision_rnn.data.dataset import Dataset, full_name, open_dataset
from decision_rnn.data.spec import DatasetSpec, observation_index
from decision_rnn.evaluation.evaluate import checkpoint_settings, evaluation_environment, summarise_data
from decision_rnn.evaluation.metrics import metrics_named
from decision_rnn.evaluation.results import Measurements, stored_result
from decision_rnn.evaluation.targets import capped_as_best, paper_returns, spread_targets
from decision_rnn.training.checkpoint import changes_since, load_agent
from decision_rnn.training.prepare import select_episodes
from decision_rnn.training.run_folder import check_resumed_run, checkpoints_of, read_metrics
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import warn

SPREAD = 5
"""Number of target returns spread over the data's range to measure the target-return error."""
OTHER = "use another --output (output= in Python)"
"""What to do in a folder with other runs."""


@dataclass(frozen=True, kw_only=True)
class PlannedTrial:
    """One run of a comparison.

    Attributes:
        variant: The variant's label.
        config: Configuration of the run, with its dataset, seed and target returns.
        output: Folder of the comparison.
        run: Folder of the run, relative to `output`.
        data: The data that the run is trained on, as the comparison reports them.
        held_out_loss: Measures its agent where nothing is played.
    """

    variant: str
    config: RunConfig
    output: Path
    run: str
    data: DatasetSpec
    held_out_loss: HeldOutLoss | None = None

    @property
    def folder(self) -> Path:
        return self.output / self.run

    def task(self) -> Task:
        """What an executor needs to train and evaluate the run."""
        text = yaml.safe_dump(to_dict(self.config), sort_keys=False)
        file = self.output / "configs" / f"{self.run}.yaml"
        return Task(self.folder, file, text, self.config.plugins, self.config.training.device)

    def check_unchanged(self) -> None:
        """InputError if the run was trained on other contents of the dataset, or with another version of a plugin."""
        if names := changes_since(self.folder, self.data):
            raise InputError(
                f"{self.folder} was trained with other contents of {', '.join(names)}: {OTHER}, or remove that folder"
            )

    def collect(self) -> Trial | None:
        """The results in the run's folder, or None if it is not finished."""
        measured = self._played() if self.held_out_loss is None else self._held_out(self.held_out_loss)
        if measured is None:
            return None
        return Trial(
            variant=self.variant,
            dataset=self.data.name,
            seed=self.config.seed,
            run=self.run,
            loss=tuple((int(line["step"]), line["loss"]) for line in read_metrics(self.folder)),
            **measured,
        )

    def _played(self) -> dict[str, Any] | None:
        """Results of the evaluations of the checkpoints, or None if that of the last one is missing."""
        config, settings = self.config, self.config.evaluation
        steps, every = config.training.steps, config.training.checkpoint_every
        result = stored_result(self.folder, config, self.data, steps, settings)
        if result is None:
            return None
        checkpoints = []
        for step in sorted({*range(every, steps, every), steps}) if settings.checkpoint_episodes else ():
            protocol = checkpoint_settings(config, self.data)
            scores = stored_result(self.folder, config, self.data, step, protocol)
            if scores is not None:
                checkpoints.append(CheckpointScores(step=step, targets=scores.targets))
            elif step == steps:
                return None
        measured = {field.name: getattr(result, field.name) for field in fields(Measurements)}
        comparable = summarise_data(self.data, config).comparable
        if comparable != self.data.comparable:
            measured["remarks"] = (comparable, *result.remarks)
        return {"checkpoints": tuple(checkpoints), **measured}

    def _held_out(self, loss: HeldOutLoss) -> dict[str, Any] | None:
        """Measurements of the last checkpoint without playing, or None if it is not there."""
        last = checkpoints_of(self.folder)[-1:]
        if [folder.name for folder in last] != [str(self.config.training.steps)]:
            return None
        try:
            trained = load_agent(last[0])
        except InputError as error:  # it is damaged: resuming the run fails and names the file
            warn(f"skipped: {error}")
            return None
        if trained.provenance.fingerprint != self.data.fingerprint:
            return None
        return {"checkpoints": (), "held_out_loss": loss(trained), **vars(measure_unplayed(trained, self.config))}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The variants, datasets and seeds of a comparison, its folder, and where its runs are made.

    Attributes:
        variants: The variants, each with the configuration of its runs, in which a run replaces dataset and seed.
        datasets: Names of the datasets.
        seeds: Number of seeds of every variant on every dataset, from the configuration's seed on, or the seeds.
        output: Folder of comparison.json and of the runs, `<dataset>/<label>-seed<n>`; if None, named by the datasets.
        jobs: Number of runs at a time; the executor's default if None.
        executor: Where the runs are made.
        ray_address: Address of a running Ray cluster.

    Raises:
        InputError: If these cannot be compared.
    """

    variants: tuple[Variant, ...]
    datasets: tuple[str, ...]
    seeds: int | Sequence[int]
    output: Path | None = None
    jobs: int | None = None
    executor: Literal["local", "ray"] = "local"
    ray_address: str | None = None

    def __post_init__(self) -> None:
        first, seeds = self.variants[0].config, [*self.seed_numbers]
        if not seeds or (self.jobs is not None and self.jobs < 1):
            raise InputError("seeds and jobs (--seeds, --jobs) must be at least 1")
        if len({*seeds}) < len(seeds) or min(seeds) < 0:
            raise InputError(f"seeds is {seeds}: name distinct seeds of at least 0")
        metrics_named(first.evaluation.metrics)
        if not self.datasets:
            raise InputError("no dataset was named: give at least one, such as hopper-medium")
        if self.ray_address is not None and self.executor != "ray":
            raise InputError("--ray_address is for --executor ray: give both or neither")
        object.__setattr__(self, "datasets", tuple(full_name(name) for name in self.datasets))
        if len({*self.datasets}) < len(self.datasets):
            raise InputError(f"the datasets of a comparison are {', '.join(self.datasets)}: name each once")
        if first.path is not None and len(self.datasets) > 1:
            raise InputError("path is the file of one dataset: name one dataset, or put the files where they are found")

    @property
    def folder(self) -> Path:
        return self.output or Path("runs") / f"compare-{'+'.join(map(_folder, self.datasets))}"

    @property
    def seed_numbers(self) -> Sequence[int]:
        if not isinstance(self.seeds, int):
            return self.seeds
        first = self.variants[0].config.seed
        return range(first, first + self.seeds)

    def trials(self) -> tuple[tuple[ComparedDataset, ...], tuple[PlannedTrial, ...]]:
        """The datasets with their target returns, and all runs, seed by seed, so that an interrupted comparison has all
        variants of its first seeds. Missing datasets are created.

        Raises:
            InputError: If a dataset or its environment is not available, a run is impossible as it is configured, or a
                run's folder holds a run of another configuration or of other data.
        """
        runs: dict[str, tuple[str, str, RunConfig]] = {}  # label, dataset and configuration by folder
        for seed, name, variant in itertools.product(self.seed_numbers, self.datasets, self.variants):
            run, config = (
                f"{_folder(name)}/{variant.label}-seed{seed}",
                replace(variant.config, dataset=name, seed=seed),
            )
            # Checks without data come first: creating datasets may take hours.
            resumed = (self.folder / run / "config.yaml").is_file()
            config = check_resumed_run(config, self.folder / run, OTHER) if resumed else config
            runs[run] = variant.label, name, config
        first = self.variants[0].config
        opened = {name: open_dataset(name, first.path, first.partial) for name in self.datasets}
        plays = _plays(first, opened.values())
        compared: dict[str, ComparedDataset] = {}
        losses: dict[str, HeldOutLoss | None] = {}
        for name, dataset in opened.items():
            compared[name], losses[name] = self._compared(name, dataset, plays)
        trials = []
        for run, (label, name, config) in runs.items():
            returns = tuple(of.target_return for of in compared[name].targets if of.target_return is not None)
            settings: dict[str, Any] = (
                {"target_returns": returns} if plays else {"episodes": 0, "checkpoint_episodes": 0}
            )
            config = replace(config, evaluation=replace(config.evaluation, **settings))
            data, loss = compared[name].data, losses[name]
            trials.append(
                PlannedTrial(variant=label, config=config, output=self.folder, run=run, data=data, held_out_loss=loss)
            )
        for trial in trials:
            trial.check_unchanged()
        return tuple(compared.values()), tuple(trials)

    def _compared(self, name: str, dataset: Dataset, plays: bool) -> tuple[ComparedDataset, HeldOutLoss | None]:
        """A dataset with its targets, or with the held-out loss that takes their place; InputError if a variant cannot
        be trained on it."""
        store, configs = dataset.store, [variant.config for variant in self.variants]
        statistics = torch.zeros(store.observation_dim), torch.ones(store.observation_dim)
        spec = agent_spec(*statistics, store.action_space, store.observation_space)
        for variant in self.variants:
            config = replace(variant.config, dataset=name)
            try:
                select_episodes(config, store)
                observation_index(config.observation.mask, store.environment_id)
                agent = DecisionAgent(
                    config.agent, config.backbone, spec, config.condition_options, config.objective_options
                )
                agent.check_acting(config.evaluation.actions, config.evaluation.inference)
            except InputError as error:
                raise InputError(f"{variant.label} cannot be trained on {name}: {error}") from None
        data = summarise_data(dataset.spec, configs[0])
        if plays:
            return ComparedDataset(data=data, targets=_targets(configs, data)), None
        loss = HeldOutLoss(self.variants, name, store)
        return ComparedDataset(data=data, targets=(), held_out=loss.record), loss


def _plays(first: RunConfig, datasets: Collection[Dataset]) -> bool:
    """Whether agents are compared by playing, or, where the data have no environment, by a held-out loss.

    Raises:
        InputError: If an environment cannot be made here, agents are to play no episodes there, some of the data have
            one and others do not, or none does and no `validation` is named.
    """
    named = {dataset.name: first.evaluation.environment_id or dataset.spec.environment_id for dataset in datasets}
    without = [name for name, environment_id in named.items() if environment_id is None]
    if not without:
        if first.evaluation.episodes == 0:
            raise InputError("evaluation.episodes is 0, which leaves nothing to compare: give at least 1")
        for dataset in datasets:
            evaluation_environment(first.evaluation, dataset.spec)
    elif len(without) < len(named):
        raise InputError(f"{without[0]} has no environment, and other datasets do: compare them separately")
    elif first.validation is None:
        raise InputError(
            f"{without[0]} has no environment to play in: name held-out episodes with --validation (validation= in "
            "Python), on which losses are compared"
        )
    return not without


def _targets(configs: Sequence[RunConfig], data: DatasetSpec) -> tuple[Target, ...]:
    """Targets on a dataset: the user's or the paper's returns, the data's best, and returns spread over its range.

    `AUTO`, or a paper's return beyond the data, is both if every variant sees it limited, as it would the data's best.
    """
    low, high = data.return_min, data.return_max
    paper = paper_returns(configs[0].evaluation, data, configs)
    conditioned = [config for config in configs if config.takes_target]
    capped = [
        target
        for target in paper
        if conditioned and all(capped_as_best(target, data, config) for config in conditioned)
    ]
    roles: dict[float, list[Role]] = {}
    for target in paper:
        roles.setdefault(target, []).append("paper")
    roles.setdefault(high if high in paper else min(capped, default=high), []).append("best")
    returns = any(config.takes_return for config in configs)
    for target in spread_targets(low, high, SPREAD) if returns and low < high else ():
        roles.setdefault(target, []).append("spread")
    return tuple(
        Target(target_return=target, roles=tuple(names), in_range=data.contains(target) if returns else None)
        for target, names in roles.items()
    )


def _folder(dataset: str) -> str:
    return dataset.replace("/", "-")
