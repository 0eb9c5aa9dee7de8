"""Datasets by name. The part before the first "/" is the source; a name never falls back to another source."""

from pathlib import Path
from typing import Literal

from decision_rnn.data.dataset import Dataset
from decision_rnn.data.sources import SOURCES
from decision_rnn.errors import InputError

DEFAULT_SOURCE = "standin"
PARTIAL_HELP = "keep or drop episodes that break off, neither terminated nor truncated"


def names() -> list[str]:
    """The names of known datasets, by source; a Minari dataset may not be downloaded yet."""
    return [name for source in SOURCES.values() for name in source.names()]


def open_dataset(name: str, path: Path | str | None = None, partial: Literal["keep", "drop"] = "keep") -> Dataset:
    """The dataset called `name`; a name without a source means the stand-in ("hopper-medium").

    Nothing is read or made yet: `Dataset.spec` and `Dataset.open` do that, and raise an error for a name that is
    unknown to its source.

    Args:
        name: The name of the dataset: `hopper-medium`, `d4rl/hopper-medium-v2`, `minari/mujoco/hopper/medium-v0`,
            `own/mine`.
        path: The file to read, for D4RL datasets.
        partial: Whether partial episodes are kept or dropped.

    Returns:
        The dataset, for `train`. `.spec` describes how agents are evaluated and scored; `.open()` makes or converts the
        data on first use and returns the episodes, an `EpisodeStore`: `.observations` (steps, O), `.actions` (steps,
        A), `.rewards` (steps,), `.episode_returns` and `.episode_lengths` (episodes,).

    Raises:
        InputError: If there is no such source, the message lists the known names; or if `partial` is neither value.

    Example:
        >>> dataset = decision_rnn.open_dataset("own/swing")
        >>> dataset.spec.environment_id
        'MountainCarContinuous-v0'
        >>> store = dataset.open()
        >>> store.episodes, store.observations.shape[1], store.actions.shape[1]
        (4, 2, 1)
    """
    if partial not in ("keep", "drop"):
        raise InputError(f"partial is {partial!r:.100}: it must be keep or drop")
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
