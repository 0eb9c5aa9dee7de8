"""Stand-ins for the D4RL datasets, which are played here on first use."""

from itertools import chain
from pathlib import Path
from typing import Any

from decision_rnn.data.cache import open_or_make
from decision_rnn.data.collect import is_made_by, open_or_collect
from decision_rnn.data.sources.contract import Source, register_source
from decision_rnn.data.spec import TASKS, DatasetSpec
from decision_rnn.data.standin.recipes import JOINED, RECIPES, REFERENCE_BUILDS, check_standin
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import warn


@register_source
class StandinSource(Source):
    """The stand-ins of `standin.recipes`: made on first use, which takes a minute or two and no network.

    A medium-expert store holds the medium and the expert set end to end, which are made first. Collecting starts
    processes: see `collect`.
    """

    prefix = "standin"
    pattern = "standin/TASK-LEVEL"

    def names(self) -> list[str]:
        return [f"standin/{name}" for name in REFERENCE_BUILDS]

    def spec(self, name: str) -> DatasetSpec:
        """Determined by the name; raises InputError for an unknown name, with the nearest and all known ones."""
        check_standin(name)
        task = TASKS[name.removeprefix("standin/").partition("-")[0]]
        return task.spec(
            name,
            f"{task.environment}-v5",
            "the data are a stand-in and the reference scores D4RL's: compare with scores on it, with no paper's",
        )

    def open(self, name: str, progress: bool, path: Path | None) -> EpisodeStore:
        spec, new = self.spec(name), not self.folder(name).exists()
        if path is not None:
            raise InputError(
                f"{name} is collected here and read from no file: leave out --path, or name a d4rl/ dataset"
            )
        if name in JOINED:
            store = self._join(name, spec, progress)
        else:
            store = open_or_collect(RECIPES[name], spec.spaces or {}, progress)
        if new:
            _compare(name, store)
        return store

    def _join(self, name: str, spec: DatasetSpec, progress: bool) -> EpisodeStore:
        """The store of a dataset that is others end to end."""
        recipes = [RECIPES[part] for part in JOINED[name]]

        def is_current(source: dict[str, Any]) -> bool:
            return all(map(is_made_by, recipes, source["parts"]))

        def make(folder: Path) -> EpisodeStore:
            stores = [self.open(part, progress, None) for part in JOINED[name]]
            return EpisodeStore.write(
                folder,
                chain.from_iterable(store.read_episodes() for store in stores),
                environment_id=spec.environment_id,
                source={"parts": [store.manifest["source"] for store in stores], "spaces": spec.spaces},
            )

        return open_or_make(name, is_current, make)


def _compare(name: str, store: EpisodeStore) -> None:
    """Warn if a new store differs from the one that results were made with."""
    fingerprint, return_mean, length_mean = REFERENCE_BUILDS[name.removeprefix("standin/")]
    if store.fingerprint != fingerprint:
        statistics = store.manifest["statistics"]
        warn(
            f"{name} differs bit for bit from the reference build (another CPU or other versions): mean return "
            f"{statistics['return_mean']:.0f} (there {return_mean:.0f}), mean length {statistics['length_mean']:.0f} "
            f"(there {length_mean:.0f}); compare scores with published ones only if these are close"
        )
