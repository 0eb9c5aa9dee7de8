"""An agent in your own loop: one environment or many, NumPy in and out, resets at any time."""

import sys
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from decision_rnn.api.configuration import evaluation_settings
from decision_rnn.backbones import reset_rows
from decision_rnn.checkpoint import TrainedAgent
from decision_rnn.errors import InputError
from decision_rnn.evaluation.actor import actor_of, prepare_to_act, window_of
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.evaluation.targets import check_conditioned, default_return


class EnvironmentActor:
    """The agent for your own loop; `run.actor(target_return)` makes one.

    It carries the agent's memory between calls. One environment: observations (O,), rewards a number, actions (A,)
    float32. Many: pass the vector environment, or the number of environments; then observations are (num_envs, O),
    rewards (num_envs,), actions (num_envs, A). Pass the unnormalised reward of every previous action: it updates the
    return-to-go. On the same observations and rewards it acts as `evaluate` does.

    Pass `done`, the third argument, or call `reset` when episodes have ended. A vector environment resets its
    environments itself, and `done` is `terminated | truncated` as its `step` returned them. With Gymnasium's default,
    `AutoresetMode.NEXT_STEP`, the observation returned with it is the episode's last one, the action for it is not
    executed, and the next observation is the first of the new episode. In the other modes, and for one environment that
    has been reset, the observation passed with a true `done` is that first one. The mode is read from `env`.

    Args:
        trained: The agent, such as `load_agent` returns.
        target_return: The target return of every episode, or one for each environment, (num_envs,); if left out, the
            first of the run's evaluation. An agent trained by cloning takes none.
        env: The environment to act in, for its number of environments and how they are reset.
        num_envs: The number of environments, if there is no `env`; None for one without a batch dimension.
        state: `recurrent` to carry the state, or `window` to re-run the last steps; the run's setting if left out.
        window: Steps in that window, if `state` is `window`; the run's setting if left out.

    Raises:
        InputError: If the environment's sizes are not the agent's, or a value is invalid.

    Example:
        >>> env = gymnasium.make("MountainCarContinuous-v0")
        >>> actor = run.actor(target_return=90)
        >>> actor.reset()
        >>> observation, _ = env.reset(seed=1)
        >>> reward, done = 0.0, False
        >>> while not done:
        ...     action = actor(observation, reward)
        ...     observation, reward, terminated, truncated, _ = env.step(action)
        ...     done = terminated or truncated

        >>> envs = gymnasium.make_vec("MountainCarContinuous-v0", num_envs=3)
        >>> actor = run.actor(target_return=[90, 50, 0], env=envs)
        >>> observation, _ = envs.reset(seed=1)
        >>> reward, done = np.zeros(3), np.zeros(3, bool)
        >>> for _ in range(100):
        ...     action = actor(observation, reward, done)
        ...     observation, reward, terminated, truncated, _ = envs.step(action)
        ...     done = terminated | truncated
        >>> action.shape
        (3, 1)
    """

    def __init__(
        self,
        trained: TrainedAgent,
        target_return: Any = None,
        *,
        env: gymnasium.Env | gymnasium.vector.VectorEnv | None = None,
        num_envs: int | None = None,
        state: Literal["recurrent", "window"] | None = None,
        window: int | None = None,
    ) -> None:
        if not isinstance(trained, TrainedAgent):
            raise InputError(f"{type(trained).__name__} is no agent: give what load_agent returned, or run.agent")
        settings = evaluation_settings(trained.config.evaluation, state=state, window=window)
        self._config = trained.config
        self.num_envs, self._reset_by_next_step = _layout(env, num_envs)
        agent = prepare_to_act(trained.agent)
        self.action_dim, self.observation_dim = agent.action_dim, agent.observation_dim
        # An agent with an observation mask knows only the minimum size of an observation.
        self._largest = self.observation_dim if agent.encoder.index is None else sys.maxsize
        if env is not None:
            self._check_spaces(env)
        self._actor = actor_of(agent, window_of(settings))
        self._target = torch.zeros(self.num_envs or 1)
        self._state = self._actor.initial_state(self._target)
        self._pending = np.zeros(self.num_envs or 1, bool)
        default = default_return(trained.config, trained.provenance)
        self.reset(default if target_return is None else target_return)

    def reset(self, target_return: Any = None, index: Any = None) -> None:
        """Start an episode: the next observation is its first, and the reward passed with it is ignored.

        Args:
            target_return: The target return from now on, a number or one for each of these environments, in the order
                of `index`; unchanged if left out.
            index: The environments: distinct indices from 0, or a mask (num_envs,) bool; all if left out.

        Raises:
            InputError: If `index` is invalid, a return is not finite, or the agent was trained by cloning.
        """
        rows = _environments(index, len(self._pending))
        if target_return is not None:
            check_conditioned(self._config)
            self._target[torch.from_numpy(rows)] = _returns(target_return, len(rows))
        self._pending[rows] = True

    def __call__(self, observation: Any, reward: Any = 0.0, done: Any = False) -> np.ndarray:
        """The action for an observation.

        Args:
            observation: (O,), or (num_envs, O).
            reward: The reward of the previous action: a number, or (num_envs,).
            done: Whether the step that returned this observation ended the episode: a flag, or (num_envs,).

        Returns:
            The action within [-1, 1], (A,) or (num_envs, A), float32; a new array.

        Raises:
            InputError: If an argument has a different shape.
        """
        count = len(self._pending)
        shape = (self.observation_dim,) if self.num_envs is None else (count, self.observation_dim)
        observations = np.asarray(observation, np.float32)
        found = observations.shape
        if len(found) != len(shape) or found[:-1] != shape[:-1] or not shape[-1] <= found[-1] <= self._largest:
            raise InputError(f"the observation has shape {found} where the agent needs {shape}")
        rewards = _rows(reward, count, "reward", np.float32)
        ended = _rows(done, count, "done", np.bool_)
        if not self._reset_by_next_step:
            self._pending |= ended
        first, self._pending = self._pending, np.zeros(count, bool)
        if self._reset_by_next_step:
            self._pending |= ended
        with one_thread(), torch.inference_mode():
            begins = None
            if first.any():
                begins = torch.from_numpy(first)
                initial = self._actor.initial_state(self._target)
                condition = reset_rows(self._state.condition, initial.condition, begins)
                self._state = self._state._replace(condition=condition)
            actions, self._state = self._actor.act(
                torch.from_numpy(observations.reshape(count, -1)), torch.from_numpy(rewards), begins, self._state
            )
        return actions.numpy()[0].copy() if self.num_envs is None else actions.numpy().copy()

    def _check_spaces(self, env: Any) -> None:
        sizes = {"observation": (self.observation_dim, self._largest), "action": (self.action_dim, self.action_dim)}
        for kind, (least, most) in sizes.items():
            space = getattr(env, f"single_{kind}_space", None) or getattr(env, f"{kind}_space")
            if (
                not isinstance(space, gymnasium.spaces.Box)
                or len(space.shape) != 1
                or not least <= space.shape[0] <= most
            ):
                raise InputError(
                    f"the agent was trained on {kind}s of {least} numbers, where the environment has {space}"
                )


def _layout(env: Any, num_envs: int | None) -> tuple[int | None, bool]:
    """The number of environments (None for one without a batch dimension), and whether each is reset by the step after
    an episode's last one."""
    if env is None:
        if num_envs is not None and num_envs < 1:
            raise InputError(f"num_envs is {num_envs}: it must be at least 1")
        return num_envs, num_envs is not None
    found = getattr(env, "num_envs", None) if isinstance(env, gymnasium.vector.VectorEnv) else None
    if num_envs is not None and num_envs != found:
        raise InputError(f"num_envs is {num_envs} where the environment has {found}: leave it out")
    mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    return found, found is not None and mode == AutoresetMode.NEXT_STEP


def _environments(index: Any, count: int) -> np.ndarray:
    """The environments selected by `index`, (rows,) int64 in its order; all of them for None."""
    if index is None:
        return np.arange(count)
    try:
        rows = np.atleast_1d(index)
    except ValueError:  # rows of different lengths
        rows = np.full(1, -1)
    if rows.dtype == np.bool_ and rows.shape == (count,):
        return np.flatnonzero(rows)
    if rows.ndim > 1 or (rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= count)):
        raise InputError(
            f"index is {index!r:.100}: there are {count} environments to choose from: give their numbers, from 0 on, "
            "or a mask"
        )
    if len(np.unique(rows)) < len(rows):
        raise InputError(f"index is {index!r:.100}: it names an environment twice")
    return rows.astype(np.int64)


def _returns(target_return: Any, count: int) -> Tensor:
    try:
        targets = np.broadcast_to(np.asarray(target_return, np.float32), (count,))
    except (TypeError, ValueError):
        targets = np.full(1, np.nan)
    if not np.isfinite(targets).all():
        raise InputError(
            f"target_return is {target_return!r:.100}: it must be a finite number, or one for each of {count} "
            "environments"
        )
    return torch.from_numpy(targets.copy())


def _rows(value: Any, count: int, name: str, dtype: type) -> np.ndarray:
    """One number per environment; a single number is broadcast."""
    array: np.ndarray = np.asarray(value, dtype)
    if array.size != 1 and array.shape != (count,):
        raise InputError(f"{name} has shape {array.shape} where there are {count} environments")
    return np.broadcast_to(array.reshape(-1), (count,)).copy()
