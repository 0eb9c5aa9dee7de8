"""Stand-ins for the D4RL datasets, which are played here on first use."""

from itertools import chain
from pathlib import Path
from typing import Any

from decision_rnn.data.collect import is_made_by, open_or_collect
from decision_rnn.data.sources.contract import Source, refuse_path, register_source
from decision_rnn.data.spaces import Spaces
from decision_rnn.data.spec import TASKS, DatasetSpec, spec_of_store
from decision_rnn.data.standin.recipes import JOINED, RECIPES, REFERENCE_BUILDS
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.utils.messages import bar, warn


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

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        comparable = "the data are a stand-in and the reference scores D4RL's: do not compare with papers"
        return spec_of_store(name, store, comparable=comparable)

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        refuse_path(name, path)
        new = not self.folder(name).exists()
        spaces = TASKS[name.removeprefix("standin/").partition("-")[0]].spaces()
        store = self._join(name, spaces) if name in JOINED else open_or_collect(RECIPES[name], spaces)
        if new:
            _compare(name, store)
        return store

    def _join(self, name: str, spaces: Spaces) -> EpisodeStore:
        """The store of a dataset that is others end to end, which are opened first."""
        recipes = [RECIPES[part] for part in JOINED[name]]

        def is_current(source: dict[str, Any]) -> bool:
            return all(map(is_made_by, recipes, source["parts"]))

        def make(folder: Path) -> EpisodeStore:
            stores = [self.open(part, None) for part in JOINED[name]]
            return EpisodeStore.write(
                folder,
                bar(chain(*stores), "joining", unit=" episodes"),
                environment_id=recipes[0].environment_id,
                source={"parts": [store.source for store in stores]},
                spaces=spaces,
            )

        return open_or_make(name, is_current, make)


def _compare(name: str, store: EpisodeStore) -> None:
    """Warn if a new store differs from the one that results were made with."""
    fingerprint, return_mean, length_mean = REFERENCE_BUILDS[name.removeprefix("standin/")]
    if store.fingerprint != fingerprint:
        statistics = store.statistics
        warn(
            f"{name} differs bit for bit from the reference build (another CPU or other versions): mean return "
            f"{statistics['return_mean']:.0f} (there {return_mean:.0f}), mean length {statistics['length_mean']:.0f} "
            f"(there {length_mean:.0f}); compare scores with published ones only if these are close"
        )
