"""MuJoCo's locomotion tasks: their sizes, which observations are velocities, and what returns mean on them."""

from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from decision_rnn.environments.spaces import Spaces
from decision_rnn.utils.errors import InputError


class MujocoTask(NamedTuple):
    """A MuJoCo task: its Gymnasium id without the version, its sizes, D4RL's returns of a random and an expert policy
    (Fu et al. 2020), and the Decision Transformer's targets; for ant, which it leaves out, Online DT's 6000 (Zheng et
    al. 2022) and half of it. The first `positions` numbers of an observation are positions; velocities follow."""

    environment: str
    positions: int
    observation_dim: int
    action_dim: int
    reference_min: float
    reference_max: float
    target_returns: tuple[float, float]

    def spaces(self) -> Spaces:
        """The spaces of a dataset of this task."""
        return Box(-np.inf, np.inf, (self.observation_dim,)), Box(-1.0, 1.0, (self.action_dim,))

    def scores(self) -> dict[str, Any]:
        """The fields of a `DatasetSpec` that the task determines."""
        return {
            "reference_min": self.reference_min,
            "reference_max": self.reference_max,
            "score_meaning": "0 is a random policy, 100 an expert",
            "target_returns": self.target_returns,
            "return_scale": 1000.0,
        }


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
    """The observation entries that an agent sees under a mask: (entries,) int64, ascending; None for all.

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
            f"observation.mask is {mask}, but which observations of {environment_id or 'these data'} are velocities is "
            f"known only for {', '.join(task.environment for task in TASKS.values())}"
        )
    return np.arange(task.positions)
