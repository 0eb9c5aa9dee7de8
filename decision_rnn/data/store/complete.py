"""The complete episodes of a dataset, as a separate store with its own fingerprint."""

from pathlib import Path
from typing import Any

from decision_rnn.data.store.cache import DERIVED, bytes_per_step, check_room, open_or_make, store_folder
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.store.verification import CacheError
from decision_rnn.errors import InputError
from decision_rnn.messages import warn


def complete_episodes(name: str, store: EpisodeStore) -> EpisodeStore:
    """The store of the dataset `name` without its partial episodes, which neither terminated nor were truncated.

    If there are none, this is `store` itself; otherwise a store that is made on first use and whenever `store` has
    changed, with a line on stderr and a note in its manifest. Raises InputError if all episodes are partial.
    """
    complete = store.terminated | store.truncated
    if complete.all():
        return store
    if not complete.any():
        raise InputError(f"all {store.episodes} episodes of {name} are partial: --partial drop would leave none")
    kept = int(store.episode_lengths[complete].sum())
    note = f"{(~complete).sum()} of {store.episodes} episodes ({store.steps - kept} steps) were partial and are dropped"
    derived = f"{DERIVED}/{name}"

    def check(source: dict[str, Any]) -> None:
        if source["all_episodes"] != store.fingerprint:
            raise CacheError(f"{store_folder(derived)} was made from other contents of {name}", store_folder(derived))

    def make(folder: Path) -> EpisodeStore:
        check_room(folder, kept * bytes_per_step(store.observation_dim, store.action_dim))
        warn(f"{name}: {note}")
        source = store.manifest["source"]
        return EpisodeStore.write(
            folder,
            (episode for episode, whole in zip(store.read_episodes(), complete, strict=True) if whole),
            environment_id=store.environment_id,
            source={**source, "all_episodes": store.fingerprint, "notes": [*source.get("notes", []), note]},
        )

    return open_or_make(derived, check, make)
