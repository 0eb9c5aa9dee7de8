"""The plan of a comparison: its runs and the target returns of each.

Everything that can be checked in advance is checked here, before hours of work.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from decision_rnn.comparison.executors import EXECUTORS
from decision_rnn.comparison.record import ComparedDataset, Role, Target
from decision_rnn.comparison.trials import PlannedTrial
from decision_rnn.comparison.variants import Variant
from decision_rnn.config import RunConfig
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.dataset import Dataset
from decision_rnn.data.environments import check_environment
from decision_rnn.data.summary import DataSummary
from decision_rnn.errors import InputError
from decision_rnn.evaluation.evaluate import summarise_data
from decision_rnn.evaluation.target_error import spread_targets
from decision_rnn.evaluation.targets import capped_as_best, paper_returns
from decision_rnn.training.loop import select_episodes
from decision_rnn.training.run_folder import check_resumed_run

SPREAD = 5
"""Number of target returns spread over the data's range to measure the target error."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The variants, datasets and seeds of a comparison, its folder, and where its runs are made.

    Attributes:
        variants: The variants, each with the configuration of its runs, in which a run replaces dataset and seed.
        datasets: Names of the datasets.
        seeds: Number of seeds of every variant on every dataset, from the configuration's seed on.
        output: Folder of comparison.json and of the runs, `<dataset>/<label>-seed<n>`; if None, named by the datasets.
        jobs: Number of runs at a time; the executor's default if None.
        executor: One of `EXECUTORS`, such as `local` or `ray`.
        ray_address: Address of a running Ray cluster.

    Raises:
        InputError: If these cannot be compared.
    """

    variants: tuple[Variant, ...]
    datasets: tuple[str, ...]
    seeds: int
    output: Path | None = None
    jobs: int | None = None
    executor: str = "local"
    ray_address: str | None = None

    def __post_init__(self) -> None:
        first = self.variants[0].config
        if self.seeds < 1 or (self.jobs is not None and self.jobs < 1):
            raise InputError("seeds and jobs (--seeds, --jobs) must be at least 1")
        if first.evaluation.episodes == 0:
            raise InputError("evaluation.episodes is 0, which leaves nothing to compare: give at least 1")
        if not self.datasets:
            raise InputError("no dataset was named: give at least one, such as hopper-medium")
        if self.executor not in EXECUTORS:
            raise InputError(f"executor is {self.executor!r:.100}: it must be {' or '.join(EXECUTORS)}")
        if self.ray_address is not None and self.executor != "ray":
            raise InputError("--ray_address is for --executor ray: give both or neither")
        object.__setattr__(self, "datasets", tuple(open_dataset(name).name for name in self.datasets))
        folders: dict[str, str] = {}
        for name in self.datasets:
            if (other := folders.setdefault(_folder(name), name)) != name or self.datasets.count(name) > 1:
                raise InputError(f"the datasets of a comparison name {name} beside {other}: name each once")
        if first.path is not None and len(self.datasets) > 1:
            raise InputError("path is the file of one dataset: name one dataset, or put the files where they are found")

    @property
    def folder(self) -> Path:
        """Folder of the comparison."""
        return self.output or Path("runs") / f"compare-{'+'.join(map(_folder, self.datasets))}"

    @property
    def seed_numbers(self) -> range:
        """Seeds of the runs."""
        first = self.variants[0].config.seed
        return range(first, first + self.seeds)

    def trials(self) -> tuple[tuple[ComparedDataset, ...], tuple[PlannedTrial, ...]]:
        """The datasets with their target returns, and all runs, seed by seed. Missing datasets are created.

        Raises:
            InputError: If a dataset or its environment is not available, a run is impossible as it is configured, or a
                run's folder holds a run of another configuration.
        """
        for name, variant, seed in self._runs():  # checks without data come first: creating datasets may take hours
            self._config(variant, name, seed)
        for name in self.datasets:
            spec = self._dataset(name).spec
            check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
        configs = [variant.config for variant in self.variants]
        compared = {}
        for name in self.datasets:
            dataset = self._dataset(name)
            store = dataset.open()
            for config in configs:
                select_episodes(replace(config, dataset=name), store)
            data = summarise_data(DataSummary.from_store(dataset.spec, store), configs[0])
            compared[name] = ComparedDataset(data=data, targets=targets_of(configs, data))
        trials = []
        for name, variant, seed in self._runs():
            config, targets = self._config(variant, name, seed), compared[name].targets
            returns = tuple(target.target_return for target in targets if target.target_return is not None)
            trials.append(
                PlannedTrial(
                    variant=variant.label,
                    config=replace(config, evaluation=replace(config.evaluation, target_returns=returns)),
                    output=self.folder,
                    run=_run(name, variant, seed),
                    data=compared[name].data,
                )
            )
        return tuple(compared.values()), tuple(trials)

    def _runs(self) -> Iterator[tuple[str, Variant, int]]:
        """Runs seed by seed, so that an interrupted comparison has all variants of its first seeds."""
        for seed, name, variant in itertools.product(self.seed_numbers, self.datasets, self.variants):
            yield name, variant, seed

    def _dataset(self, name: str) -> Dataset:
        first = self.variants[0].config
        return open_dataset(name, first.path, first.partial)

    def _config(self, variant: Variant, dataset: str, seed: int) -> RunConfig:
        config = replace(variant.config, dataset=dataset, seed=seed)
        folder = self.folder / _run(dataset, variant, seed)
        return check_resumed_run(config, folder) if (folder / "config.yaml").is_file() else config


def targets_of(configs: Sequence[RunConfig], data: DataSummary) -> tuple[Target, ...]:
    """Targets on a dataset: the user's or the paper's returns, the data's best, and returns spread over its range.

    A paper's return beyond the data that every variant sees capped, as it would see the data's best, is both.
    """
    low, high = data.return_min, data.return_max
    spread = spread_targets(low, high, SPREAD) if low < high else ()
    paper = paper_returns(configs[0].evaluation, data)
    conditioned = [config for config in configs if config.takes_target]
    capped = [of for of in paper if conditioned and all(capped_as_best(of, data, config) for config in conditioned)]
    roles: dict[float, list[Role]] = {}
    named: tuple[tuple[Role, tuple[float, ...]], ...] = (
        ("paper", paper),
        ("best", (high if high in paper else min(capped, default=high),)),
        ("spread", spread),
    )
    for role, returns in named:
        for target in returns:
            roles.setdefault(target, []).append(role)
    return tuple(
        Target(target_return=target, roles=tuple(of), in_range=data.contains(target)) for target, of in roles.items()
    )


def _run(dataset: str, variant: Variant, seed: int) -> str:
    """Path of a run's folder, relative to the comparison's."""
    return f"{_folder(dataset)}/{variant.label}-seed{seed}"


def _folder(dataset: str) -> str:
    return dataset.replace("/", "-")
