"""Stand-ins for the D4RL datasets, collected here on first use."""

import contextlib
from itertools import chain
from pathlib import Path
from typing import Any

from decision_rnn.data.sources.contract import Source, refuse_path, register_source
from decision_rnn.data.spec import TASKS, DatasetSpec, spec_of_store
from decision_rnn.data.standin import collection
from decision_rnn.data.standin.recipes import JOINED, OURS, RECIPES, check_standin
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.data.unfinished import unfinished
from decision_rnn.utils.machine import cpu_model, versions
from decision_rnn.utils.messages import bar, warn


@register_source
class StandinSource(Source):
    """The stand-ins of `recipes.OURS`: made on first use, which takes a minute or two and no network.

    A medium-expert store holds the medium and the expert set end to end. Data that were made by another recipe are made
    again, with a line on stderr. Collecting starts processes: see `collection.collect`.
    """

    prefix = "standin"
    pattern = "standin/TASK-LEVEL"

    def names(self) -> list[str]:
        return [f"standin/{name}" for name in OURS]

    def check(self, name: str) -> None:
        check_standin(name)

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        comparable = "the data are a stand-in and the reference scores D4RL's: do not compare with papers"
        return spec_of_store(name, store, comparable=comparable)

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        refuse_path(name, path)
        parts = JOINED.get(name, (name,))
        source: dict[str, Any] = {"recipes": [RECIPES[part].fingerprint for part in parts]}

        def make(folder: Path) -> EpisodeStore:
            recipe, task = RECIPES[parts[0]], TASKS[name.removeprefix("standin/").partition("-")[0]]
            with contextlib.ExitStack() as stack:
                if name in JOINED:
                    stores = [self.open(part, None) for part in parts]
                    made_of = {"parts": [store.source for store in stores]}
                    episodes = bar(chain(*stores), "joining", unit=" episodes")
                else:
                    made_of = {
                        "recipe": recipe.describe(),
                        "versions": versions(("decision-rnn", "gymnasium", "mujoco", "numpy")),
                        "cpu": cpu_model(),
                    }
                    episodes = collection.collect(recipe, stack.enter_context(unfinished(name, made_of)))
                store = EpisodeStore.write(
                    folder,
                    episodes,
                    environment_id=recipe.environment_id,
                    source={**source, **made_of},
                    spaces=task.spaces(),
                )
            fingerprint, return_mean, length_mean = OURS[name.removeprefix("standin/")]
            if store.fingerprint != fingerprint:
                here = store.statistics
                warn(
                    f"{name} differs bit for bit from the reference build (another CPU or library versions): "
                    f"mean return {here['return_mean']:.0f}, {return_mean:.0f} there, "
                    f"mean length {here['length_mean']:.0f}, {length_mean:.0f} there"
                )
            return store

        return open_or_make(name, lambda found: found["recipes"] == source["recipes"], make)
