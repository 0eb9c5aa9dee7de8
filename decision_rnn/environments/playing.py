"""Plays episodes: recording, scoring, filming and data making all step through `play_together`."""

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from decision_rnn.environments.episode import Episode, checked_episodes, is_finite
from decision_rnn.environments.layouts import Layout
from decision_rnn.environments.registry import make_environment
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.messages import progress_bar

DEFAULT_MAX_STEPS = 10_000
"""Largest number of steps of an episode in an environment without a time limit."""

Policy = Callable[[Sequence[Any], np.ndarray, np.ndarray | None], Any]
"""Called with the observations of the environments that are still playing, the rewards of their previous actions (0 at
first), float64, and which of the previous call's rows they are, (rows,) int64, or None for all of them. Returns
their actions, one after the other."""

Act = Callable[[Any, float, bool], Any]
"""The policy of one environment: called with an observation, the reward of the previous action and whether the episode
has just begun, it returns an action."""


class Step(NamedTuple):
    """One step of the environments that were still playing."""

    rows: np.ndarray  # (playing,) int64, their numbers
    actions: Any  # (playing, ...)
    observations: Sequence[Any]  # their next observations; the last ones where `over`
    rewards: np.ndarray  # (playing,) float64
    terminated: np.ndarray  # (playing,) bool
    truncated: np.ndarray  # (playing,) bool
    infos: Sequence[dict[str, Any]]  # (playing,)
    cut: bool  # whether episodes that are not over end here all the same, since they have reached the largest length

    @property
    def over(self) -> np.ndarray:
        """(playing,) bool, true where the environment has ended the episode."""
        return self.terminated | self.truncated


@contextlib.contextmanager
def make_group(environment_id: str | None, count: int) -> Iterator[list[gymnasium.Env]]:
    """As many environments, as by `make_environment`; all are closed at the end, even where one fails."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(make_environment(environment_id))) for _ in range(count)]


def play_together(
    environments: Sequence[gymnasium.Env], observations: Sequence[Any], policy: Policy, max_steps: int | None = None
) -> Iterator[Step]:
    """Play one episode in each environment, all stepped together; an environment is left out once its episode is over.

    Args:
        environments: With the same spaces, already reset. They are not closed.
        observations: What their resets returned.
        policy: Chooses the actions.
        max_steps: The largest length of an episode; None for no limit but the environments' own.
    """
    rows, remaining, current, rewards = np.arange(len(observations)), None, observations, np.zeros(len(observations))
    for length in itertools.count(1):
        actions = policy(current, rewards, remaining)
        results = [environments[row].step(action) for row, action in zip(rows.tolist(), actions, strict=True)]
        current, earned, *ends, infos = zip(*results, strict=True)
        rewards = np.array(earned, np.float64).reshape(len(rows))  # each may be an array of one number
        terminated, truncated = (np.array(flags, bool).reshape(len(rows)) for flags in ends)
        step = Step(rows, actions, current, rewards, terminated, truncated, infos, cut=length == max_steps)
        yield step
        if step.cut or step.over.all():
            return
        remaining = None
        if step.over.any():
            remaining = np.flatnonzero(~step.over)
            rows, rewards = rows[remaining], rewards[remaining]
            current = [current[row] for row in remaining.tolist()]


def time_limit(environment: gymnasium.Env) -> int | None:
    """The largest number of steps of an episode by Gymnasium's TimeLimit; None without one."""
    with contextlib.suppress(AttributeError):
        return environment.get_wrapper_attr("_max_episode_steps")
    return None


def step_limit(
    environment: gymnasium.Env, max_steps: int | None = None, longest_episode: int | None = None
) -> int | None:
    """The number of steps after which an episode is cut; None if the environment's own limit is the only one.

    It is `max_steps`. If that is None, and the environment has no limit, it is the length of the longest episode of
    the data, or `DEFAULT_MAX_STEPS` if that is not known.
    """
    if max_steps is not None or time_limit(environment) is not None:
        return max_steps
    return longest_episode or DEFAULT_MAX_STEPS


def play_episode(
    environment: gymnasium.Env, act: Act, seed: int | None = None, max_steps: int | None = None
) -> Episode:
    """Play one episode from `reset(seed)`; after `max_steps` steps it is cut: truncated. Nothing is closed.

    Returns:
        The episode, with observations and actions as rows: flattened, discrete values one-hot.

    Raises:
        InputError: If an action has another shape than the environment's or is not finite, in which case the
            environment does not get it; or if an observation or reward is not finite.
    """
    spaces = environment.observation_space, environment.action_space
    observation_layout, action_layout = map(Layout.of_space, spaces, ("observations", "actions"))
    actions, rewards, ends = list[Any](), list[float](), (False, False)
    first, _ = environment.reset(seed=seed)
    observations = [copy.deepcopy(first)]  # the environment may change it in place

    def policy(current: Sequence[Any], previous: np.ndarray, remaining: np.ndarray | None) -> list[Any]:
        return [_checked(act(current[0], float(previous[0]), not actions), spaces[1])]

    for step in play_together([environment], [first], policy, max_steps):
        observations.append(copy.deepcopy(step.observations[0]))
        actions.append(step.actions[0])
        rewards.append(step.rewards[0])
        ends = bool(step.terminated[0]), bool(step.truncated[0] or not step.over[0])
    episode = Episode(
        observation_layout.rows_of(observations, "observation"),
        action_layout.rows_of(actions, "action"),
        np.array(rewards),
        *ends,
        seed,
    )
    return next(checked_episodes([episode], "the environment"))


def _checked(action: Any, space: gymnasium.Space[Any]) -> Any:
    """A policy's action as an array, or a number where it is discrete; InputError unless it fits the space's shape and
    is finite."""
    try:
        array = np.asarray(action)
        fits = array.shape == space.shape and is_finite(array).all()
    except (TypeError, ValueError):  # such as an action with a state
        fits = False
    if not fits:
        raise InputError(f"the policy returned {one_line(action, 100)}: expected finite numbers of shape {space.shape}")
    return array[()]


def play(environment: gymnasium.Env, act: Act, seed: int = 0, max_steps: int | None = None) -> Iterator[Episode]:
    """Play one episode after another without end, as `play_episode` does: episode i starts with reset(seed + i), and is
    cut after `step_limit` steps."""
    limit = step_limit(environment, max_steps)
    return (play_episode(environment, act, index, limit) for index in itertools.count(seed))


def take(
    episodes: Iterable[Episode], count: int | None, steps: int | None, description: str, progress: bool = True
) -> Iterator[Episode]:
    """The first `count` episodes, or if it is None whole episodes until there are at least `steps` steps, with a
    progress bar."""
    total, unit = (count, " episodes") if count is not None else (steps, " steps")
    done = 0
    with progress_bar(total=total, desc=description, unit=unit, unit_scale=count is None, show=progress) as bar:
        for episode in episodes:
            size = len(episode.rewards) if count is None else 1
            done += size
            bar.update(size)
            yield episode
            if total is not None and done >= total:
                return


def play_episodes(
    environment_id: str, policy: Callable[[np.ndarray], np.ndarray], episodes: int, seed: int = 0
) -> Iterator[Episode]:
    """Play episodes with a policy.

    Args:
        environment_id: A registered Gymnasium id.
        policy: A function from an observation to an action, as of the environment.
        episodes: The number of episodes.
        seed: Episode i starts with the environment's reset(seed + i).

    Raises:
        InputError: If the environment cannot be made here, or an action has another shape or is not finite.
    """
    with contextlib.closing(make_environment(environment_id)) as environment:
        yield from itertools.islice(play(environment, lambda observation, *_: policy(observation), seed), episodes)
