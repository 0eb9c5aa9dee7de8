"""One episode, as recorded from an environment."""

from dataclasses import dataclass

import numpy as np

from decision_rnn.errors import InputError


@dataclass(frozen=True, eq=False)  # comparing arrays gives no single truth value
class Episode:
    """One episode of T steps as recorded from an environment.

    observations (T+1, O), the last one after the last action; actions (T, A); rewards (T,). `terminated` and
    `truncated` describe the last step; both false marks a partial episode. `seed` is the environment's reset seed, if
    known.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool
    truncated: bool
    seed: int | None = None

    def validate(self, name: str) -> None:
        """Raise InputError, with `name` for the episode, unless it is non-empty, finite and consistent in length."""
        if self.rewards.ndim != 1 or self.actions.ndim != 2 or self.observations.ndim != 2:
            raise InputError(
                f"{name} has observations of shape {self.observations.shape}, actions {self.actions.shape} "
                f"and rewards {self.rewards.shape} where (T+1, O), (T, A) and (T,) are needed"
            )
        length = len(self.rewards)
        if length == 0:
            raise InputError(f"{name} has no steps: leave it out")
        if len(self.actions) != length or len(self.observations) != length + 1:
            raise InputError(
                f"{name} has {len(self.observations)} observations, {len(self.actions)} actions and {length} "
                "rewards: there must be as many actions as rewards and one observation more"
            )
        for field in ("observations", "actions", "rewards"):
            # Cast first: values that overflow float32 would be stored as infinite.
            with np.errstate(over="ignore"):
                finite = np.isfinite(getattr(self, field).astype(np.float32)).all()
            if not finite:
                raise InputError(f"{name} has {field} that are not finite in float32: leave the episode out")
