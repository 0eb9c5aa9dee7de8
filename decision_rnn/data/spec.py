"""The spec of a dataset: its evaluation environment, the normalisation of its scores and its target returns."""

import json
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Text, Tuple
from minari.serialization import deserialize_space, serialize_space

from decision_rnn.data.layouts import TEXT
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.errors import InputError

REACHED, ASKED = "achieved_goal", "desired_goal"
"""The entries of observations of Gymnasium-Robotics' `GoalEnv`."""
D4RL_REFERENCES = (
    "the dataset has no reference scores, those used are D4RL's for the same task, our choice: "
    "compare with no score on D4RL's data"
)


def described_spaces(observations: gymnasium.Space[Any] | None, actions: gymnasium.Space[Any] | None) -> dict[str, str]:
    """Spaces in the form of `DatasetSpec.spaces`, without those that are not known."""
    spaces = {"observation": observations, "action": actions}
    return {kind: serialize_space(_described(space)) for kind, space in spaces.items() if space is not None}


def _described(space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
    """A space that Minari's JSON can describe: with plain text in place of Minigrid's, which agents do not read."""
    if isinstance(space, Dict):
        return _dict_in_order((key, _described(entry)) for key, entry in space.spaces.items())
    if isinstance(space, Tuple):
        return Tuple([_described(entry) for entry in space.spaces])
    return Text(1) if type(space).__name__ in TEXT else space


def read_space(described: str) -> gymnasium.Space[Any]:
    """The space that Minari's JSON describes; the entries of a Dict have the order in which they are written there,
    which is that of the columns in which its values are stored."""
    return _read(json.loads(described))


def read_spaces(described: Mapping[str, str] | None) -> dict[str, gymnasium.Space[Any]]:
    """The spaces that `described_spaces` describes, by kind."""
    return {kind: read_space(space) for kind, space in (described or {}).items()}


def _read(described: dict[str, Any]) -> gymnasium.Space[Any]:
    if described["type"] == "Dict":
        return _dict_in_order((key, _read(entry)) for key, entry in described["subspaces"].items())
    if described["type"] == "Tuple":
        return Tuple([_read(entry) for entry in described["subspaces"]])
    return deserialize_space(described)


def _dict_in_order(entries: Iterable[tuple[str, gymnasium.Space[Any]]]) -> Dict:
    return Dict(OrderedDict(entries))  # Gymnasium sorts the keys of a plain dictionary


@dataclass(frozen=True)
class DatasetSpec:
    """The evaluation environment, reference scores and target returns of a dataset.

    `reference_min` and `reference_max` are the returns that score 0 and 100: normalised score = 100 * (return - min) /
    (max - min). `target_returns` are the targets of evaluation and `return_scale` divides returns-to-go, as in the
    Decision Transformer (Chen et al. 2021, appendix A). `comparable` is a sentence on where the references come from
    and which scores ours may be compared with.

    `spaces` are the Gymnasium spaces of an observation and an action in Minari's JSON; None in checkpoints of
    version 0.2, and for your own data until they are opened. Read them as `observation_space` and `action_space`.

    `environment_id` is None for data of no environment, such as a robot's: agents trained on them are not evaluated.

    `requirements` are the packages that the dataset declares for its environment, in pip's syntax.
    `environment_settings` are its settings of the environment besides the id (`kwargs`, `max_episode_steps`,
    `additional_wrappers`), None if it gives none. Both are read from third-party files:
    `environments.check_environment` checks them.

    `tasks` is how many tasks the environment has in turn: `reset(seed=s)` begins number s % tasks.
    """

    name: str
    environment_id: str | None
    reference_min: float
    reference_max: float
    target_returns: tuple[float, ...]
    return_scale: float
    comparable: str
    requirements: tuple[str, ...] = field(default=(), kw_only=True)
    environment_settings: dict[str, Any] | None = field(default=None, kw_only=True)
    spaces: dict[str, str] | None = field(default=None, kw_only=True)
    tasks: int = field(default=1, kw_only=True)

    @property
    def observation_space(self) -> gymnasium.Space[Any] | None:
        """The space of an observation; None if it is not known."""
        return self._space("observation")

    @property
    def action_space(self) -> gymnasium.Space[Any] | None:
        """The space of an action; None if it is not known."""
        return self._space("action")

    def _space(self, kind: str) -> gymnasium.Space[Any] | None:
        described = (self.spaces or {}).get(kind)
        return None if described is None else read_space(described)

    def normalised(self, returns: np.ndarray | float) -> np.ndarray:
        """The scores of returns: 0 is `reference_min`, 100 `reference_max` (Fu et al., "D4RL", 2020)."""
        span = self.reference_max - self.reference_min
        return 100.0 * (np.asarray(returns, np.float64) - self.reference_min) / span


@dataclass(frozen=True)
class MujocoTask:
    """A MuJoCo task: its sizes, D4RL's returns of a random and an expert policy (Fu et al. 2020), and its targets.

    `environment` is the Gymnasium id without its version. The first `positions` numbers of an observation are
    positions; velocities, and for ant v5 contact forces, come after them. The targets are the Decision Transformer's;
    for ant, which it leaves out, Online DT's 6000 (Zheng et al. 2022) and half of it.
    """

    environment: str
    positions: int
    observation_dim: int
    action_dim: int
    reference_min: float
    reference_max: float
    target_returns: tuple[float, float]
    return_scale: float = 1000.0

    def spec(self, name: str, environment_id: str, comparable: str, observation_dim: int | None = None) -> DatasetSpec:
        """The spec of a dataset of this task, whose observations may have more numbers than the task's."""
        scale = (self.reference_min, self.reference_max, self.target_returns, self.return_scale)
        observations = Box(-np.inf, np.inf, (observation_dim or self.observation_dim,))
        spaces = described_spaces(observations, Box(-1.0, 1.0, (self.action_dim,)))
        return DatasetSpec(name, environment_id, *scale, comparable, spaces=spaces)


TASKS = {
    "hopper": MujocoTask("Hopper", 5, 11, 3, -20.272305, 3234.3, (3600.0, 1800.0)),
    "halfcheetah": MujocoTask("HalfCheetah", 8, 17, 6, -280.178953, 12135.0, (12000.0, 6000.0)),
    "walker2d": MujocoTask("Walker2d", 8, 17, 6, 1.629008, 4592.3, (5000.0, 2500.0)),
    "ant": MujocoTask("Ant", 13, 27, 8, -325.6, 3879.7, (6000.0, 3000.0)),
}


def task_of(environment_id: str | None) -> MujocoTask | None:
    """The task of a Gymnasium id, ignoring its version; None if it is not in `TASKS`."""
    return next((t for t in TASKS.values() if (environment_id or "").rpartition("-v")[0] == t.environment), None)


def observation_index(mask: str, environment_id: str | None) -> np.ndarray | None:
    """The observation entries that an agent sees under a mask: (seen,) int64, ascending; None for all.

    Args:
        mask: `none`, or `velocity` to see only positions.
        environment_id: The Gymnasium id, whose task determines which entries are positions.

    Raises:
        InputError: If it is not known which entries of the environment's observations are velocities.
    """
    if mask == "none":
        return None
    task = task_of(environment_id)
    if task is None:
        raise InputError(
            f"observation.mask is {mask}, but where the velocities of {environment_id or 'these data'} are is known "
            f"only for {', '.join(task.environment for task in TASKS.values())}"
        )
    return np.arange(task.positions)


def column_names(store: EpisodeStore, kind: str) -> list[str]:
    """The names of the entries of `observations` or `actions`, if the data are a log whose columns are the entries."""
    names: list[str] = store.manifest["source"].get("columns", {}).get(kind, [])
    size = {"observations": store.observation_dim, "actions": store.action_dim}[kind]
    return names if len(names) == size else []  # the choices of one column are many entries


def spec_of_store(name: str, store: EpisodeStore) -> DatasetSpec:
    """The spec of a dataset that is not predefined, read from its store.

    The references are the source's own if it has any, otherwise D4RL's if the task is in `TASKS`, otherwise the lowest
    and highest return in the data. The target returns are the task's, otherwise the highest and the median return in
    the data.
    """
    task, source, statistics = task_of(store.environment_id), store.manifest["source"], store.manifest["statistics"]
    low, high = statistics["return_min"], statistics["return_max"]
    largest = max(abs(low), abs(high))
    references = (low, high if high > low else low + 1.0)
    targets = (high, statistics["return_p50"])
    scale = 10.0 ** math.floor(math.log10(largest)) if largest > 0 else 1.0
    comparable = "the scale is that of these data alone: compare with no paper's scores"
    if task is not None:
        references, comparable = (task.reference_min, task.reference_max), D4RL_REFERENCES
        targets, scale = task.target_returns, task.return_scale
    if source.get("reference_scores"):
        references = source["reference_scores"]
        comparable = "the reference scores are the dataset's own: compare with scores on the same dataset"
    return DatasetSpec(
        name,
        store.environment_id,
        *references,
        targets,
        scale,
        comparable,
        requirements=tuple(source.get("requirements", ())),
        environment_settings=source.get("environment_settings"),
        spaces=source.get("spaces") or None,
    )
