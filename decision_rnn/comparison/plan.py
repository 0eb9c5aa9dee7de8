"""The plan of a comparison: its runs and the target returns of each.

Everything that can be checked in advance is checked here, before hours of work.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from decision_rnn.comparison.cells import Cell
from decision_rnn.comparison.record import ComparedDataset, Role, Target
from decision_rnn.comparison.variants import Variant, check_variants
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.dataset import Dataset
from decision_rnn.data.environments import check_environment
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.summary import DataSummary
from decision_rnn.errors import InputError
from decision_rnn.evaluation.evaluate import summarise_data
from decision_rnn.evaluation.results import Protocol
from decision_rnn.evaluation.target_error import spread_targets
from decision_rnn.evaluation.targets import paper_returns
from decision_rnn.plugins import check_plugins
from decision_rnn.training.run_folder import check_resumed_run

CHECKPOINT_EPISODES = 20
"""Number of episodes with which every checkpoint is evaluated, for each of its targets."""
SPREAD = 5
"""Number of target returns spread over the data's range to measure the target error."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The variants, datasets and seeds of a comparison, and its folder.

    Attributes:
        variants: The variants, each with the configuration of its runs, in which a run replaces dataset and seed.
        datasets: Names of the datasets.
        seeds: Seeds of the runs.
        output: Folder of comparison.json and of the runs, `<dataset>/<label>-seed<n>`.
        checkpoint_episodes: Number of episodes with which every checkpoint is evaluated; 0 to evaluate only the last.

    Raises:
        InputError: If these cannot be compared.
    """

    variants: tuple[Variant, ...]
    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    output: Path
    checkpoint_episodes: int = CHECKPOINT_EPISODES

    def __post_init__(self) -> None:
        check_variants(self.variants)
        first = self.variants[0].config
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"the seeds of a comparison are {list(self.seeds)}: name at least one, and each once")
        if first.evaluation.episodes == 0:
            raise InputError("evaluation.episodes is 0, which leaves nothing to compare: give at least 1")
        if self.checkpoint_episodes < 0:
            raise InputError(f"checkpoint_episodes is {self.checkpoint_episodes}: it must be at least 0")
        if not self.datasets:
            raise InputError("no dataset was named: give at least one")
        object.__setattr__(self, "datasets", tuple(open_dataset(name).name for name in self.datasets))
        folders: dict[str, str] = {}
        for name in self.datasets:
            if (other := folders.setdefault(_folder(name), name)) != name or self.datasets.count(name) > 1:
                raise InputError(f"the datasets of a comparison name {name} beside {other}: name each once")
        if first.path is not None and len(self.datasets) > 1:
            raise InputError("path is the file of one dataset: name one dataset, or put the files where they are found")
        for variant in self.variants:
            check_plugins(variant.config.plugins, variant.label)

    def cells(self) -> tuple[tuple[ComparedDataset, ...], tuple[Cell, ...]]:
        """The datasets with their target returns, and all runs, seed by seed. Missing datasets are created.

        Raises:
            InputError: If a dataset or its environment is not available, or a run's folder holds a run of another
                configuration.
        """
        for name, variant, seed in self._runs():  # checks without data come first: creating datasets may take hours
            self._check(variant, name, seed)
        for name in self.datasets:
            spec = self._dataset(name).spec
            check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
        compared, cells = {}, []
        first = self.variants[0].config
        for name in self.datasets:
            dataset = self._dataset(name)
            store = dataset.open()
            spec = dataset.spec  # read again: now it describes what the store holds
            data = summarise_data(DataSummary.from_store(spec, store), replace(first, dataset=name))
            compared[name] = ComparedDataset(data=data, targets=targets_of(first.evaluation, spec, store))
        for name, variant, seed in self._runs():
            cells.append(self._cell(variant, self._check(variant, name, seed), compared[name]))
        return tuple(compared.values()), tuple(cells)

    def _runs(self) -> Iterator[tuple[str, Variant, int]]:
        """Runs seed by seed, so that an interrupted comparison has all variants of its first seeds."""
        for seed, name, variant in itertools.product(self.seeds, self.datasets, self.variants):
            yield name, variant, seed

    def _dataset(self, name: str) -> Dataset:
        first = self.variants[0].config
        return open_dataset(name, first.path, first.partial)

    def _check(self, variant: Variant, dataset: str, seed: int) -> RunConfig:
        config = replace(variant.config, dataset=dataset, seed=seed)
        folder = self.output / _run(dataset, variant.label, seed)
        return check_resumed_run(config, folder) if (folder / "config.yaml").is_file() else config

    def _cell(self, variant: Variant, config: RunConfig, dataset: ComparedDataset) -> Cell:
        conditioned = config.takes_target
        asked = tuple(target.target_return for target in dataset.targets)

        def protocol(episodes: int, targets: Sequence[float | None]) -> Protocol:
            returns = tuple(dict.fromkeys(target for target in targets if target is not None))
            return Protocol.from_settings(replace(config.evaluation, episodes=episodes), returns, config.takes_target)

        checkpoints = [asked[0], *(t.target_return for t in dataset.targets if "best" in t.roles)]
        return Cell(
            variant=variant.label,
            dataset=config.dataset,
            config=config,
            output=self.output,
            run=_run(config.dataset, variant.label, config.seed),
            data=dataset.data,
            targets=asked if conditioned else (None,),
            protocol=protocol(config.evaluation.episodes, asked),
            checkpoint_protocol=protocol(self.checkpoint_episodes, checkpoints) if self.checkpoint_episodes else None,
        )


def targets_of(settings: EvaluationConfig, spec: DatasetSpec, store: EpisodeStore) -> tuple[Target, ...]:
    """Targets on a dataset: the user's or the paper's returns, the data's best, and returns spread over its range."""
    low, high = store.manifest["statistics"]["return_min"], store.manifest["statistics"]["return_max"]
    paper, spread = paper_returns(settings, spec), spread_targets(low, high, SPREAD) if low < high else ()
    roles: dict[float, list[Role]] = {}
    named: tuple[tuple[Role, tuple[float, ...]], ...] = (("paper", paper), ("best", (high,)), ("spread", spread))
    for role, returns in named:
        for asked in returns:
            roles.setdefault(asked, []).append(role)
    return tuple(
        Target(target_return=asked, roles=tuple(of), in_range=low <= asked <= high) for asked, of in roles.items()
    )


def _run(dataset: str, label: str, seed: int) -> str:
    """Path of a run's folder, relative to the comparison's."""
    return f"{_folder(dataset)}/{label}-seed{seed}"


def _folder(dataset: str) -> str:
    return dataset.replace("/", "-")
