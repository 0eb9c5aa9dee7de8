"""Acting in environments one step at a time, NumPy in and out: what agents and exported policies have in common.

This and what it imports need only numpy and lazy_loader, so that exported policies act without torch.
"""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from decision_rnn.environments.layouts import Layout, numbered
from decision_rnn.utils.errors import InputError, did_you_mean

State = TypeVar("State")
"""The state of environments, batch first, as the subclass represents it."""


class Actor(ABC, Generic[State]):
    """Acts in one environment or many, and keeps their state between calls: `decision_rnn.EnvironmentActor` describes
    its use and arguments.

    Subclasses set the attributes below before they call this class's `__init__`. `max_observation_dim` is the largest
    number of entries of an observation that is a vector; `limited` says whether something limits the return-to-go, so
    that the target may be `auto`. Names are empty if there are none. `observation_moments` (2, O) are mean and standard
    deviation of the entries in the training data, NaN for those that the agent does not read.

    Raises:
        InputError: If the environment's spaces are not those that were trained on, or a vector environment does not
            declare how it resets.
    """

    observation_layout: Layout
    action_layout: Layout
    limited: bool
    reads_reward: bool
    observation_names: Sequence[str]
    action_names: Sequence[str]
    observation_moments: np.ndarray
    _state: State
    _target: np.ndarray
    _reward: np.ndarray

    def __init__(self, target_return: float, env: Any = None, warn_outside: float | None = None) -> None:
        self.num_envs: int | None = getattr(env, "num_envs", None)  # of a vector environment
        self._mode = "NextStep" if self.num_envs is None else autoreset_mode(env)
        if env is not None:
            self._check_spaces(env)
        self._target_return = np.asarray(target_return, np.float32)  # of every environment, or one for each
        self._is_first: np.ndarray | None = None  # (num_envs,) from the first step on
        self.warn_outside = warn_outside
        self._limits: np.ndarray | None = None
        if warn_outside is not None:  # not of choices: rare ones are many standard deviations from their mean
            self._limits = np.where(self.observation_layout.categorical, np.inf, warn_outside)

    def __repr__(self) -> str:
        sizes = f"observation {self.observation_layout.size}, action {self.action_layout.size}"
        return f"{type(self).__name__}({sizes}, target_return {self._target_return.tolist()}, num_envs {self.num_envs})"

    @abstractmethod
    def initial_state(self, environments: int) -> State:
        """The state before an episode's first step."""

    @abstractmethod
    def step(
        self, observation: np.ndarray, reward: np.ndarray, reset: np.ndarray, target_return: np.ndarray, state: State
    ) -> tuple[np.ndarray, State]:
        """Actions (batch, A) and the next state, without the state that is kept between calls. Observations (batch, O)
        and the others (batch,) are float32, `reset` bool: true where an episode begins with that target return, and
        reward and state are ignored."""

    def reset(self, target_return: ArrayLike | None = None, done: ArrayLike | None = None) -> None:
        """Begin an episode: the next observation is its first, and the reward passed with it is ignored.

        Args:
            target_return: The target return from now on: a number, `auto` (infinity as a number), or one for each
                environment, (num_envs,); unchanged if left out.
            done: (num_envs,) bool, the environments in which an episode begins; all if left out.

        Raises:
            InputError: If a target return is not finite, or `auto` where nothing limits the return-to-go, or there are
                others than one for each environment.
        """
        targets = self._target_return if target_return is None else self._targets(target_return)
        if done is None:
            self._target_return, self._is_first = targets, None
            return
        count = (self.num_envs or np.size(done)) if self._is_first is None else len(self._is_first)
        mask = _for_each(done, count, "done", bool)
        if target_return is not None:
            pair = (_for_each(each, count, "target_return", np.float32) for each in (targets, self._target_return))
            self._target_return = np.where(mask, *pair)
        if self._is_first is not None:
            self._target[...] = self._target_return
            self._is_first |= mask

    def act(self, observation: ArrayLike, reward: ArrayLike | None = None, done: ArrayLike | None = None) -> np.ndarray:
        """The actions for observations.

        Args:
            observation: (O,), or (num_envs, O), or a dictionary of the entries' values by the names in
                `observation_names`, each a number or (num_envs,); of a space that is not a vector, a value, or values
                with the environments first in every part, as a vector environment gives them.
            reward: The reward of the previous action: a number, or (num_envs,). It may be left out at the first step of
                an episode, and by agents whose condition does not read it.
            done: Whether the step that returned the observation ended the episode: a flag, or (num_envs,). An actor
                that was given a vector environment needs it, since that resets itself; False leaves it to `reset`.

        Returns:
            The actions within the agent's action space, (A,) or (num_envs, A), float32; discrete ones are whole numbers
            in the shape of the space; a new array. `action_names` has the names of the entries.

        Raises:
            InputError: If an observation has another shape or other names, it or the reward within an episode is not
                finite, or the reward is needed and left out: the state is then unchanged.
        """
        observations, single = self._rows(observation)
        count = len(observations)
        if self._is_first is None:
            self._begin(count)
        assert self._is_first is not None
        try:
            self._reward[...] = 0.0 if reward is None else reward
        except (TypeError, ValueError):  # checked only here, since it takes as long as a small layer
            self._reward[...] = _for_each(reward, count, "reward", np.float32)
        ended = None if done is None else _for_each(done, count, "done", bool)
        if ended is None and self.num_envs is not None and not self._is_first.any():
            raise InputError("done is missing: the vector environment resets itself, so pass terminated | truncated")
        by_next_step = self._mode == "NextStep" and not single
        first = self._is_first if ended is None or by_next_step else self._is_first | ended
        _check_finite(observations, self._reward, first, self.observation_names)
        if self._limits is not None:
            self._warn_outside(observations, self._limits)
        if reward is None and self.reads_reward and not first.all():
            raise InputError("reward is missing: the agent's condition depends on the reward of every previous action.")
        if ended is not None:
            self._is_first[...] = first
        actions = self._advance(observations)
        self._is_first[...] = ended if by_next_step and ended is not None else False
        values = self.action_layout.values(actions)  # no Dict or Tuple: agents do not act in them
        return values[0] if single else values

    __call__ = act

    def _advance(self, observations: np.ndarray) -> np.ndarray:
        assert self._is_first is not None
        actions, self._state = self.step(observations, self._reward, self._is_first, self._target, self._state)
        return actions

    def _begin(self, count: int) -> None:
        """Begin an episode in so many environments."""
        self._target = _for_each(self._target_return, count, "target_return", np.float32).copy()
        self._reward = np.zeros(count, np.float32)
        self._is_first, self._state = np.ones(count, bool), self.initial_state(count)

    def _targets(self, target_return: ArrayLike) -> np.ndarray:
        values = np.asarray(target_return, object)
        try:
            targets = np.array([math.inf if str(each) == "auto" else each for each in values.flat], np.float32)
        except (TypeError, ValueError):
            targets = np.full(1, np.nan)  # refused below
        if not (np.isfinite(targets) | (np.isposinf(targets) & self.limited)).all():
            expected = "a finite number or auto" if self.limited else "a finite number, as nothing limits the return"
            raise InputError(f"target_return is {target_return!r:.100}: expected {expected}")
        targets = targets.reshape(values.shape)
        return targets if self.num_envs is None else _for_each(targets, self.num_envs, "target_return", np.float32)

    def _rows(self, observation: ArrayLike) -> tuple[np.ndarray, bool]:
        """Observations as rows, (environments, O) float32, and whether there was only one, without the batch."""
        layout, environments = self.observation_layout, self.num_envs if self._is_first is None else len(self._is_first)
        values: Any
        if layout.flat:
            values = self._by_name(observation) if isinstance(observation, dict) else observation
            try:
                array = np.asarray(values, np.float32)
                array = array.T if isinstance(observation, dict) else array
                single = array.ndim == 1 and self.num_envs is None
                rows = array[None] if single else array
            except (TypeError, ValueError, RuntimeError):  # such as (observation, info), or a tensor with a gradient
                raise InputError(f"the observation is {observation!r:.100}: expected {layout.size} numbers.") from None
        else:
            single = self.num_envs is None and layout.holds_one(observation)
            values = [observation] if single else observation
            rows = (layout.rows_of if single else layout.rows)(values, "the observation").astype(np.float32, copy=False)
        expected = (environments or (len(rows) if rows.ndim else 1), layout.size)
        if rows.shape != expected:
            raise InputError(f"the observation has shape {rows.shape[single:]}, expected {expected[single:]}")
        return rows, single

    def _by_name(self, observation: dict[str, Any]) -> list[Any]:
        """The entries of a dictionary in their order; InputError, naming one that is missing or unknown."""
        names = self.observation_names
        remedy = f"Its entries are {', '.join(names)}" if names else "Give an array: the training data name no entries"
        if unknown := [name for name in observation if name not in names]:
            hint = did_you_mean(unknown[0], names)
            raise InputError(f"{unknown[0]!r:.100} is no entry of an observation. {hint}{remedy:.300}")
        if missing := [name for name in names if name not in observation]:
            raise InputError(f"the observation has no {missing[0]!r}. {remedy:.300}")
        return [observation[name] for name in names]

    def _warn_outside(self, observations: np.ndarray, limits: np.ndarray) -> None:
        """Warn of the entries that are beyond their limits (O,), which are then infinite."""
        mean, std = self.observation_moments
        distances = np.abs(observations - mean) / std
        for entry in np.flatnonzero((distances > limits).any(0)).tolist():
            row, limits[entry] = distances[:, entry].argmax(), np.inf
            name, value = numbered(entry, self.observation_names), observations[row, entry]
            warnings.warn(
                f"entry {name} of the observation is {value:.4g}, {distances[row, entry]:,.1f} standard deviations "
                f"from its mean in the training data, {mean[entry]:.4g}",
                stacklevel=3,
            )

    def _check_spaces(self, env: Any) -> None:
        """Raise InputError unless the spaces of an environment are those that were trained on."""
        for kind, layout in (("observation", self.observation_layout), ("action", self.action_layout)):
            space = getattr(env, f"single_{kind}_space", getattr(env, f"{kind}_space", None))
            other = None if space is None else Layout.of_space(space, f"{kind}s").ordered_as(layout)
            vectors = other is not None and layout.flat and other.flat and layout.size == other.size
            if other != layout and not vectors:
                raise InputError(
                    f"env {env!s:.100} has the {kind} space {space}, where the agent was trained on {kind}s of "
                    f"{layout.size} numbers"
                )


def _for_each(values: Any, count: int, name: str, dtype: type) -> np.ndarray:
    """Broadcast one value, or `count` values in a row or column, to (count,); InputError for another number."""
    try:
        return np.broadcast_to(np.asarray(values, dtype).ravel(), (count,))
    except (TypeError, ValueError):
        raise InputError(f"{name} is {values!r:.100}: expected one value, or {count}, one for each row.") from None


def autoreset_mode(env: Any) -> str:
    """How a vector environment declares that it resets, a value of Gymnasium's `AutoresetMode`; InputError if it does
    not."""
    for each in (env, getattr(env, "unwrapped", None)):
        mode = (getattr(each, "metadata", None) or {}).get("autoreset_mode")
        if (text := str(getattr(mode, "value", mode))) in ("NextStep", "SameStep", "Disabled"):
            return text
    raise InputError(
        f"{type(env).__name__} does not declare how it resets its environments. Set its metadata['autoreset_mode'] to "
        "AutoresetMode.NEXT_STEP, SAME_STEP or DISABLED of Gymnasium."
    )


def _check_finite(observations: np.ndarray, rewards: np.ndarray, first: np.ndarray, names: Sequence[str]) -> None:
    """Raise InputError, naming the row and the entry, if a number is not finite: it would stay in the agent's state."""
    if math.isfinite(np.vdot(observations, observations) + np.vdot(rewards, rewards)):  # or overflows: see below
        return
    values = np.column_stack([observations, np.where(first, 0, rewards)])
    for row, entry in np.argwhere(~np.isfinite(values)):
        is_reward = entry == observations.shape[1]
        name = "the reward" if is_reward else f"entry {numbered(entry, names)} of the observation"
        place = f" of environment {row}" if len(values) > 1 else ""
        raise InputError(f"{name}{place} is {values[row, entry]}: give a finite number; the state is unchanged")
