"""Acting in environments one step at a time, NumPy in and out: what agents and exported policies have in common.

This and what it imports need only numpy, so that exported policies act without torch.
"""

import contextlib
import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from decision_rnn.data.layouts import Layout, numbered
from decision_rnn.utils.errors import InputError

State = list[np.ndarray]
"""The state of environments: arrays with the environments first, in an order of the engine's own."""

MAX_ENVIRONMENTS = 1 << 20
"""Largest number of environments of an actor that is not made for a number of them: a large index takes memory for all
indices below it."""


class ActingLoop(ABC):
    """Acts in one environment or many, with indices from 0, and keeps the state of each between calls.

    `decision_rnn.EnvironmentActor` describes its use. Subclasses set `observation_layout` and `action_layout`, and
    `max_observation_dim`, the largest number of entries of an observation that is a vector, before they call this
    class's `__init__`. An environment's actions do not depend on which others act with it, except for
    their last digits.

    Args:
        target_return: The target return of every environment until `reset` is given another.
        env: The environment to act in, for its number of environments and how they are reset.
        num_envs: The number of environments, if there is no `env`; None if the first call determines it.

    Raises:
        InputError: If the environment's spaces are not those that were trained on, or a number is invalid.
    """

    observation_layout: Layout
    max_observation_dim: int
    action_layout: Layout
    _state: State

    def __init__(self, target_return: float, env: Any = None, num_envs: int | None = None) -> None:
        if num_envs is not None and (not isinstance(num_envs, int | np.integer) or num_envs < 1):
            raise InputError(f"num_envs is {num_envs!r:.100}: it must be a whole number of at least 1")
        self.num_envs, self._reset_by_next_step, self._expects_done = num_envs, True, False
        if env is not None:
            self._take_layout(env)
        self._default_target = target_return
        self._forget()

    @abstractmethod
    def initial_state(self, environments: int) -> State:
        """The state before an episode's first step, in new arrays."""

    @abstractmethod
    def step(
        self, observation: np.ndarray, reward: np.ndarray, reset: np.ndarray, target_return: np.ndarray, state: State
    ) -> tuple[np.ndarray, State]:
        """One step of a batch, without the state that is kept between calls.

        Args:
            observation: (batch, O) float32.
            reward: (batch,) float32; ignored where an episode begins.
            reset: (batch,) bool, true where an episode begins: the state there is ignored.
            target_return: (batch,) float32, the target return of episodes that begin.
            state: From `initial_state` or the previous call.

        Returns:
            Actions, (batch, A), and the state to pass to the next call, in new arrays.
        """

    def reset(self, target_return: ArrayLike | None = None, index: ArrayLike | None = None) -> None:
        """Begin an episode: the next observation is its first, and the reward passed with it is ignored.

        Args:
            target_return: The target return from now on, a number or one for each of these environments, in the order
                of `index`, or `auto`, which as a number is infinity; unchanged if left out.
            index: The environments: distinct indices from 0, or a mask (num_envs,) bool; all if left out.

        Raises:
            InputError: If `index` is invalid, or a return is not finite.
        """
        targets = None
        if target_return is not None:
            with contextlib.suppress(TypeError, ValueError):
                auto = isinstance(target_return, str) and target_return == "auto"
                targets = np.asarray(math.inf if auto else target_return, np.float32)
            if targets is None or targets.ndim > 1 or not (np.isfinite(targets) | (targets == math.inf)).all():
                raise InputError(
                    f"target_return is {target_return!r:.100}: it must be auto or a finite number, or one number for "
                    "each environment"
                )
        if index is not None:
            rows = self._rows(index)
        elif targets is not None and targets.ndim:
            rows = np.arange(self._settle(len(targets), "target returns"))
        else:
            rows = np.arange(len(self._first))
            self._default_target = self._default_target if targets is None else float(targets)
        if targets is not None:
            if targets.ndim and len(targets) != len(rows):
                raise InputError(f"target_return has {len(targets)} numbers for {len(rows)} environments")
            self._target[rows] = targets
        self._first[rows] = True

    def act(
        self,
        observation: ArrayLike,
        reward: ArrayLike = 0.0,
        index: ArrayLike | None = None,
        done: ArrayLike | None = None,
    ) -> np.ndarray:
        """The actions for observations.

        Args:
            observation: (O,), or (num_envs, O); of a space that is not a vector, a value, or values with the
                environments first in every part, as a vector environment gives them.
            reward: The reward of the previous action: a number, or (num_envs,).
            index: The environments to step, in the order of the observations; all if left out.
            done: Whether the step that returned the observation ended the episode: a flag, or (num_envs,). An actor
                that was given a vector environment needs it, since that resets itself; False leaves it to `reset`.

        Returns:
            The actions within the agent's action space, (A,) or (num_envs, A), float32; discrete ones are whole numbers
            in the shape of the space; a new array.

        Raises:
            InputError: If an argument has a different shape or is invalid, or an entry of an observation, or the reward
                within an episode, is not a finite number: the state is then unchanged, and the next call goes on.
        """
        layout, free = self.observation_layout, self.num_envs is None or index is not None
        if layout.flat:
            observations = _numbers(observation, "observation", np.float32)
            single = observations.ndim == 1 and free
            batch = observations[None] if single else observations
            if batch.ndim != 2 or not layout.size <= batch.shape[1] <= self.max_observation_dim:
                needed = tuple(size for size in (self.num_envs, layout.size) if size is not None)
                raise InputError(f"the observation has shape {observations.shape} where the agent needs {needed}")
        else:
            single = free and layout.holds_one(observation, "the observation")
            row = (
                layout.row(observation, "the observation")[None]
                if single
                else layout.rows(observation, "the observation")
            )
            batch = row.astype(np.float32, copy=False)
        rows = None if index is None else self._rows(index)
        count = self._settle(len(batch), "observations") if rows is None else len(rows)
        if len(batch) != count:
            raise InputError(f"there are {len(batch)} observations for {count} environments of index")
        rewards = _per_row(reward, count, "reward", np.float32)
        ended = None if done is None else _per_row(done, count, "done", np.bool_)
        if not count:
            return self._values(np.zeros((0, self.action_layout.size), np.float32))
        where = slice(None) if rows is None else rows
        next_step = self._reset_by_next_step and (self.num_envs is not None or not single)
        first = self._first[where]
        if ended is None and self._expects_done and not first.any():
            raise InputError("done is missing: the vector environment resets itself, so pass terminated | truncated")
        if ended is not None and not next_step:
            first = first | ended
        _check_finite(batch, rewards, first, layout)
        self._first[where] = first
        if rows is None:
            actions = self._act_all(batch, rewards)
        else:
            state = [part[rows] for part in self._state]
            actions, stepped = self.step(batch, rewards, self._first[rows], self._target[rows], state)
            for part, new in zip(self._state, stepped, strict=True):
                part[rows] = new
        self._first[where] = ended if next_step and ended is not None else False
        values = self._values(actions)
        return values[0] if single else values

    def __call__(self, observation: ArrayLike, reward: ArrayLike = 0.0, done: ArrayLike | None = None) -> np.ndarray:
        """`act` in all environments."""
        return self.act(observation, reward, done=done)

    def _values(self, actions: np.ndarray) -> np.ndarray:
        return self.action_layout.values(actions)  # no Dict or Tuple: agents do not act in them

    def _act_all(self, observations: np.ndarray, rewards: np.ndarray) -> np.ndarray:
        actions, self._state = self.step(observations, rewards, self._first, self._target, self._state)
        return actions

    def _forget(self) -> None:
        """Forget all episodes, and the number of environments unless the actor is made for it."""
        self._target, self._first, self._state = np.zeros(0, np.float32), np.zeros(0, bool), self.initial_state(0)
        if self.num_envs is not None:
            self._grow(self.num_envs)

    def _settle(self, count: int, what: str) -> int:
        """Settle the number of environments; InputError if it is settled already and is another."""
        if not len(self._first):
            self._grow(count)
        if count != len(self._first):
            raise InputError(
                f"there are {count} {what} for {len(self._first)} environments: give one for each, or name the "
                "environments by index"
            )
        return count

    def _rows(self, index: ArrayLike) -> np.ndarray:
        """The environments selected by `index`, (rows,) int64 in its order; new ones begin their first episode."""
        limit = MAX_ENVIRONMENTS if self.num_envs is None else self.num_envs
        with contextlib.suppress(ValueError):  # rows of different lengths
            rows = np.atleast_1d(index)
            if rows.dtype == np.bool_ and rows.shape == self._first.shape:
                rows = np.flatnonzero(rows)
            if not rows.size:
                return np.zeros(0, np.int64)
            whole = rows.ndim == 1 and rows.dtype.kind in "iu"
            if whole and 0 <= rows.min() <= rows.max() < limit and len(np.unique(rows)) == len(rows):
                self._grow(max(int(rows.max()) + 1, len(self._first)))
                return rows.astype(np.int64)
        raise InputError(
            f"index is {index!r:.100}: give a mask, or the indices of different environments, from 0 to {limit - 1}"
        )

    def _grow(self, environments: int) -> None:
        """Make room for that many environments; those that are there already keep their state."""
        more = environments - len(self._first)
        if more:
            self._target = np.append(self._target, np.full(more, self._default_target, np.float32))
            self._first = np.append(self._first, np.ones(more, bool))
            pairs = zip(self._state, self.initial_state(more), strict=True)
            self._state = [np.concatenate(pair) for pair in pairs]

    def _take_layout(self, env: Any) -> None:
        """Check the sizes of an environment, and take how many there are and how they are reset."""
        if not hasattr(env, "metadata") or not hasattr(env, "action_space"):
            raise InputError(f"env is {env!r:.100}: give what gymnasium.make or make_vec returned")
        found = env.num_envs if hasattr(env, "single_observation_space") else None
        if self.num_envs not in (None, found):
            raise InputError(f"num_envs is {self.num_envs} where the environment has {found}: leave it out")
        mode = env.metadata.get("autoreset_mode", "NextStep")
        self._expects_done = found is not None
        self.num_envs, self._reset_by_next_step = found, getattr(mode, "value", mode) == "NextStep"
        for kind, layout, most in (
            ("observation", self.observation_layout, self.max_observation_dim),
            ("action", self.action_layout, self.action_layout.size),
        ):
            space = getattr(env, f"single_{kind}_space", None) or getattr(env, f"{kind}_space")
            there = Layout.of_space(space, f"{kind}s")
            vectors = layout.flat and there.flat and layout.size <= there.size <= most
            if there != layout and not vectors:
                other = "" if layout.flat else " in another space"
                raise InputError(
                    f"the agent was trained on {kind}s of {layout.size} numbers{other}, where the environment "
                    f"has {space}"
                )


def _check_finite(observations: np.ndarray, rewards: np.ndarray, first: np.ndarray, layout: Layout) -> None:
    """Raise InputError, naming the row and the entry, if a number is not finite: it would stay in the agent's state.
    Rewards where an episode begins, (rows,) bool, are ignored."""
    # Where all numbers are finite but this overflows, the loop below finds none.
    if math.isfinite(np.vdot(observations, observations)) and math.isfinite(np.vdot(rewards, rewards)):
        return
    for name, values in (("observation", observations), ("reward", np.where(first, 0, rewards)[:, None])):
        for row, entry in np.argwhere(~np.isfinite(values)):
            place = f" of environment {row}" if len(values) > 1 else ""
            named = numbered(entry, layout.names)
            which = f"entry {named} of the observation" if name == "observation" else "the reward"
            raise InputError(
                f"{which}{place} is {values[row, entry]}: give a finite number; the agent's state is unchanged"
            )


def _numbers(value: ArrayLike, name: str, dtype: type) -> np.ndarray:
    """A value as an array; InputError if it holds no numbers, or rows of different lengths."""
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError):
        raise InputError(f"{name} is {value!r:.100}: it must hold numbers, as many in every row") from None


def _per_row(value: ArrayLike, count: int, name: str, dtype: type) -> np.ndarray:
    """One number per environment; a single number is broadcast."""
    array = _numbers(value, name, dtype)
    if array.shape == (count,):
        return array
    if array.size != 1:
        raise InputError(f"{name} has shape {array.shape} where there are {count} environments")
    return array.repeat(count)
