"""Plays episodes: everything here that plays, to record, to score or to watch, steps through `play_together`."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from decision_rnn.data.episode import Episode
from decision_rnn.data.layouts import Layout, numbered
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import PositiveInt, convert

DEFAULT_MAX_STEPS = 10_000
"""Largest number of steps of an episode in an environment that is registered without a limit."""

LARGEST_SQUARE = 1e76
"""If a sum of squares is below this, every number is finite in float32, the largest of which is 3.4e38."""

EPISODES_AT_ONCE = "episodes_at_once"
"""The key of an environment's `metadata` with the most episodes that evaluation should step together, where one
environment takes much memory or long to make."""

Policy = Callable[[list[Any], np.ndarray, np.ndarray | None], Any]
"""Called with the observations of the environments that are still playing, the rewards of their previous actions (0 at
first), float64, and which of the previous call's rows they are, (rows,) int64, or None for all of them. Returns
their actions, one after the other."""

Act = Callable[[Any, Any, Any], Any]
"""A policy: called with an observation, the reward of the previous action and whether the episode ended, it returns an
action, like `decision_rnn.EnvironmentActor`. In a vector environment all have the batch first."""


class Step(NamedTuple):
    """One step of the environments that were still playing."""

    rows: np.ndarray  # (playing,) int64, their numbers
    actions: Any  # (playing, ...)
    observations: list[Any]  # their next observations; the last ones where `over`
    rewards: np.ndarray  # (playing,) float64
    terminated: np.ndarray  # (playing,) bool
    truncated: np.ndarray  # (playing,) bool
    infos: Sequence[dict[str, Any]]  # (playing,)
    cut: bool  # whether episodes that are not over end here all the same, since they have reached the largest length

    @property
    def over(self) -> np.ndarray:
        """(playing,) bool, true where the environment has ended the episode."""
        return self.terminated | self.truncated


def play_together(
    environments: Sequence[gymnasium.Env], observations: Sequence[Any], policy: Policy, max_steps: int | None = None
) -> Iterator[Step]:
    """Play one episode in each environment, all stepped together; an environment is left out once its episode is over.

    Args:
        environments: The environments, already reset. They are not closed.
        observations: What their resets returned.
        policy: Chooses the actions.
        max_steps: The largest length of an episode; None for no limit but the environments' own.
    """
    playing, rows, kept = list(environments), np.arange(len(environments)), None
    current, rewards, length = list(observations), np.zeros(len(environments)), 0
    while playing:
        actions = policy(current, rewards, kept)
        results = [environment.step(action) for environment, action in zip(playing, actions, strict=True)]
        following, earned, terminated, truncated, infos = zip(*results, strict=True)
        current, rewards, length = list(following), _rewards(earned), length + 1
        ends = np.array(terminated, bool), np.array(truncated, bool)
        step = Step(rows, actions, current, rewards, *ends, infos, cut=length == max_steps)
        yield step
        if step.cut:
            return
        kept = None
        if step.over.any():
            kept = np.flatnonzero(~step.over)
            rows, rewards = rows[kept], rewards[kept]
            playing, current = [playing[row] for row in kept], [current[row] for row in kept]


def _rewards(earned: Sequence[Any]) -> np.ndarray:
    """The rewards of a step, (environments,) float64; each may be an array of one number."""
    with contextlib.suppress(TypeError, ValueError):
        rewards = np.array(earned, np.float64)
        if rewards.size == len(earned):
            return rewards.reshape(-1)
    raise InputError(f"the environment gave a reward {earned[0]!r:.100}: it must be one number")


@dataclass(frozen=True)
class Quota:
    """How much to play: a number of episodes, or whole episodes until there are at least a number of steps."""

    episodes: int | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        for name in ("episodes", "steps"):
            object.__setattr__(self, name, convert(getattr(self, name), PositiveInt | None, name))
        if (self.episodes is None) == (self.steps is None):
            raise InputError(f"episodes is {self.episodes} and steps {self.steps}: give one of them")

    def met(self, episodes: int, steps: int) -> bool:
        """Whether so many episodes and steps meet the quota."""
        return episodes >= self.episodes if self.episodes is not None else steps >= (self.steps or 0)

    def share(self, number: int, count: int) -> "Quota | None":
        """The share of environment `number` of `count`; None if it has nothing to play."""
        if self.episodes is None:
            return Quota(steps=math.ceil((self.steps or 0) / count))
        own = self.episodes // count + (number < self.episodes % count)
        return Quota(episodes=own) if own else None


@dataclass
class _Course:
    """An episode in progress, with observations and actions as rows."""

    observations: list[np.ndarray]
    actions: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)

    def add(self, action: np.ndarray, reward: Any, observation: np.ndarray) -> None:
        _check_finite("the environment gave a reward", reward)
        self.actions.append(action)
        self.rewards.append(float(reward))
        self.observations.append(observation)

    def ended(self, terminated: Any, truncated: Any, seed: int | None) -> Episode:
        arrays = np.stack(self.observations), np.stack(self.actions), np.array(self.rewards)
        return Episode(*arrays, bool(terminated), bool(truncated), seed)


def spec_of(environment: gymnasium.Env | gymnasium.vector.VectorEnv) -> EnvSpec | None:
    """The spec of an environment, or of one in a vector, with its wrappers; None if it was not made by an id."""
    return _first(environment).spec


def _first(environment: gymnasium.Env | gymnasium.vector.VectorEnv) -> gymnasium.Env | gymnasium.vector.VectorEnv:
    """An environment of a vector, whose spec leaves out the wrappers of its environments; else what is given.

    Those of an asynchronous vector are in other processes: it is returned itself, without wrappers.
    """
    while isinstance(environment, gymnasium.vector.VectorWrapper):
        environment = environment.env
    return environment.envs[0] if isinstance(environment, SyncVectorEnv) else environment


def single_spaces(
    environment: gymnasium.Env | gymnasium.vector.VectorEnv,
) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """The spaces of the observations and actions of an environment, or of one in a vector."""
    if isinstance(environment, gymnasium.vector.VectorEnv):
        return environment.single_observation_space, environment.single_action_space
    return environment.observation_space, environment.action_space


def step_limit(environment: gymnasium.Env | gymnasium.vector.VectorEnv, max_steps: int | None) -> int | None:
    """The number of steps after which an episode is cut: `max_steps`, or `DEFAULT_MAX_STEPS` if the environment has no
    limit of its own; None if that is the only one."""
    spec, layer = spec_of(environment), _first(environment)
    limited = spec is not None and spec.max_episode_steps is not None
    while isinstance(layer, gymnasium.Wrapper):  # without an id there is no spec, but there may be a limit
        limited = limited or isinstance(layer, TimeLimit)
        layer = layer.env
    return DEFAULT_MAX_STEPS if max_steps is None and not limited else max_steps


def play_one(
    environment: gymnasium.Env, act: Act, quota: Quota, seed: int, max_steps: int | None = None
) -> Iterator[Episode]:
    """Play in one environment, which is not closed: episode i starts with its reset(seed + i). `act` gets a true `done`
    with an episode's first observation. An episode that has not ended after `step_limit` steps is cut: truncated.

    Raises:
        InputError: If the shape of an action is not the environment's, an action, observation or reward is not finite,
            or the policy gives no array of numbers.
    """
    index, steps, limit, rows = 0, 0, step_limit(environment, max_steps), _Rows(environment)
    while not quota.met(index, steps):
        observation, _ = environment.reset(seed=seed + index)
        course = _Course([rows.observation(observation, "'s reset")])

        def policy(observations: list[Any], rewards: np.ndarray, _: object, course: _Course = course) -> list[Any]:
            return [rows.checked(act(observations[0], rewards[0], not course.actions))]

        for step in play_together([environment], [observation], policy, limit):
            course.add(rows.action(step.actions[0]), step.rewards[0], rows.observation(step.observations[0]))
        yield course.ended(step.terminated[0], step.truncated[0] or not step.over[0], seed + index)
        index, steps = index + 1, steps + len(course.rewards)


def play_many(
    environments: gymnasium.vector.VectorEnv, act: Act, quota: Quota, seed: int, max_steps: int | None = None
) -> Iterator[Episode]:
    """Play in a vector environment, which is not closed, with any of Gymnasium's autoreset modes.

    Each environment plays its own share: taking the first episodes to end would favour short ones. An episode that has
    not ended after `step_limit` steps is cut, and to `act` it looks like one that the environment ends.

    Raises:
        InputError: As for `play_one`; or if an episode has to be cut and the vector environment is not one of
            Gymnasium's own, which can reset some of their environments.
    """
    count, mode = environments.num_envs, environments.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    limit, none = step_limit(environments, max_steps), np.zeros(environments.num_envs, bool)
    layouts = _Rows(environments)
    observations, _ = environments.reset(seed=seed)
    rows = layouts.observations(observations, "'s reset")
    shares = {row: share for row in range(count) if (share := quota.share(row, count))}
    played = {row: [0, 0] for row in shares}  # episodes and steps
    courses = [_Course([row]) for row in rows]
    rewards, over, cut = np.zeros(count), none, none
    while shares:
        actions = layouts.checked(act(observations, rewards, over))
        taken = layouts.actions(actions)
        resetting = over if mode == AutoresetMode.NEXT_STEP else none
        observations, rewards, terminated, truncated, info = environments.step(actions)
        if (resetting & cut).any():  # what was cut has been stepped once more instead of being reset
            observations = _reset(environments, cut)
            rewards, terminated, truncated = (np.where(resetting, 0, of) for of in (rewards, terminated, truncated))
        rows = layouts.observations(observations)
        ended = np.logical_or(terminated, truncated)
        cut = none.copy()
        for row in np.flatnonzero(~resetting).tolist():
            course = courses[row]
            final = ended[row] and mode == AutoresetMode.SAME_STEP
            last = layouts.observation(info["final_obs"][row]) if final else rows[row]
            course.add(taken[row], rewards[row], last)
            cut[row] = not ended[row] and len(course.rewards) == limit
            if (ended[row] or cut[row]) and row in shares:
                seeded = seed + row if played[row][0] == 0 else None
                episode = course.ended(terminated[row], truncated[row] or cut[row], seeded)
                played[row] = [played[row][0] + 1, played[row][1] + len(episode.rewards)]
                if shares[row].met(*played[row]):
                    del shares[row]
                yield episode
        over = ended | cut
        unreset = {AutoresetMode.NEXT_STEP: none, AutoresetMode.SAME_STEP: cut, AutoresetMode.DISABLED: over}[mode]
        if unreset.any():
            observations = _reset(environments, unreset)
            rows = layouts.observations(observations, "'s reset")
        for row in np.flatnonzero(resetting if mode == AutoresetMode.NEXT_STEP else over).tolist():
            courses[row] = _Course([rows[row]])


def _reset(environments: gymnasium.vector.VectorEnv, rows: np.ndarray) -> Any:
    """Reset the environments where `rows` (num_envs,) bool is true; returns the observations of all."""
    expected = environments.metadata.get("autoreset_mode") == AutoresetMode.DISABLED
    if not expected and not isinstance(environments.unwrapped, SyncVectorEnv | AsyncVectorEnv):
        raise InputError(
            f"an episode has reached the largest number of steps, and {type(environments.unwrapped).__name__} cannot "
            "reset one of its environments: give it a time limit of its own, or raise max_episode_steps"
        )
    observations, _ = environments.reset(options={"reset_mask": rows.copy()})
    return observations


class _Rows:
    """What an environment, or each of a vector, gives and takes, checked and as rows."""

    def __init__(self, environment: gymnasium.Env | gymnasium.vector.VectorEnv) -> None:
        self.environment = environment
        self.name = environment.spec.id if environment.spec is not None else "the environment"
        self.seen, self.acted = map(Layout.of_space, single_spaces(environment), ("observations", "actions"))

    def observation(self, value: Any, origin: str = "") -> np.ndarray:
        """One observation as a row (O,); InputError if it is not finite, naming `origin`."""
        row = self.seen.row(value, "observation")
        _check_finite(f"the environment{origin} gave an observation", row, self.seen.names)
        return row

    def observations(self, values: Any, origin: str = "") -> np.ndarray:
        """The observations of a vector environment as rows (num_envs, O); as `observation`."""
        rows = np.array(self.seen.rows(values, "observation"))  # a vector environment may reuse its arrays
        _check_finite(f"the environment{origin} gave an observation", rows, self.seen.names)
        return rows

    def action(self, value: np.ndarray) -> np.ndarray:
        """One action as a row (A,)."""
        return self.acted.row(value, "action")

    def actions(self, values: np.ndarray) -> np.ndarray:
        """The actions of a vector environment as rows (num_envs, A)."""
        return np.array(self.acted.rows(values, "action"))

    def checked(self, action: Any) -> Any:
        """An action that a policy gave, as an array, or a number if it is discrete; InputError unless it has the shape
        of the environment's and is finite."""
        shape = self.environment.action_space.shape
        if shape is None:
            return action
        try:
            action = np.asarray(action)
        except ValueError:  # parts of different shapes, such as an action and a policy's state
            raise InputError(f"the policy gave {action!r:.100}, which is no array: return the action alone") from None
        if action.shape != shape:
            raise InputError(f"the policy gave an action of shape {action.shape} where {self.name} needs {shape}")
        _check_finite("the policy gave an action", action)
        return action[()]


def _check_finite(subject: str, values: Any, names: Sequence[str | None] = ()) -> None:
    """Raise InputError unless all values are numbers that are finite in float32, in which they are stored; `names` are
    those of the entries of a row."""
    with contextlib.suppress(TypeError, ValueError):
        if float(np.vdot(values, values)) < LARGEST_SQUARE:  # half the time of what finds out which one is not
            return
    try:
        with np.errstate(over="ignore"):
            finite = np.isfinite(np.asarray(values, np.float32))
    except (TypeError, ValueError):
        raise InputError(f"{subject} that holds no numbers: {values!r:.100}") from None
    if not finite.all():
        *before, last = np.argwhere(~finite)[0].tolist() or [None]
        entry = "" if last is None else f"entry {', '.join([*map(str, before), numbered(last, names)])} is "
        raise InputError(f"{subject} that is not finite in float32: {entry}{np.asarray(values)[~finite][0]}")
