"""Datasets by name. What stands before the first "/" is the source; no name falls back from one source to another."""

from pathlib import Path
from typing import Literal

from decision_rnn.data.dataset import Dataset
from decision_rnn.data.sources import SOURCES
from decision_rnn.errors import InputError

DEFAULT_SOURCE = "standin"
PARTIAL_HELP = "keep or drop episodes that break off, neither terminated nor truncated"


def names() -> list[str]:
    """The datasets that can be named, by source; a Minari dataset can be one that is not here yet."""
    return [name for source in SOURCES.values() for name in source.names()]


def open_dataset(name: str, path: Path | str | None = None, partial: Literal["keep", "drop"] = "keep") -> Dataset:
    """The dataset called `name`; a name without a source means the stand-in ("hopper-medium").

    Nothing is read or made yet: `Dataset.spec` and `Dataset.open` do that, and raise an error for a name that its
    source does not know.

    Args:
        name: The name of the dataset: `hopper-medium`, `d4rl/hopper-medium-v2`, `minari/mujoco/hopper/medium-v0`,
            `own/mine`.
        path: The file to read, for the datasets of D4RL.
        partial: Whether partial episodes are kept or dropped.

    Returns:
        The dataset, which `train` takes. `.spec` says where agents are evaluated and how they are scored; `.open()`
        makes or converts what is not here yet and returns its episodes, an `EpisodeStore`: `.observations` (steps, O),
        `.actions` (steps, A), `.rewards` (steps,), `.episode_returns` and `.episode_lengths` (episodes,).

    Raises:
        InputError: Listing the known names, when there is no such source.

    Example:
        >>> dataset = decision_rnn.open_dataset("own/swing")
        >>> dataset.spec.environment_id
        'MountainCarContinuous-v0'
        >>> store = dataset.open()
        >>> store.episodes, store.observations.shape[1], store.actions.shape[1]
        (4, 2, 1)
    """
    full = name if "/" in name else f"{DEFAULT_SOURCE}/{name}"
    source = SOURCES.get(full.partition("/")[0])
    if source is None:
        default = SOURCES[DEFAULT_SOURCE]
        known = ", ".join([*default.names(), *(s.pattern for s in SOURCES.values() if s is not default)])
        raise InputError(
            f"unknown dataset {name!r}: known are {known}; `decision-rnn data list` lists them, and --plugins MODULE "
            "adds the sources of a module of your own"
        )
    return Dataset(full, source, Path(path) if path else None, partial)
