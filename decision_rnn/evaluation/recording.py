"""Records the episodes of a policy or an agent as a dataset."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import torch

from decision_rnn.data.dataset import Dataset, open_dataset
from decision_rnn.data.sources.local import LocalSource, write_store
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.playing import Act, play, take
from decision_rnn.environments.registry import describe_alteration, make_environment, settings_of
from decision_rnn.evaluation.acting import Actor
from decision_rnn.evaluation.actor import EnvironmentActor, find_policy
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.interruption import Interruption
from decision_rnn.utils.messages import pluralize, quiet, warn
from decision_rnn.utils.parsing import NonNegativeInt, PositiveInt, convert
from decision_rnn.utils.plugins import import_plugins


def record(
    policy: Callable[[Any], Any] | Actor[Any] | TrainedAgent | str | Path,
    environment: str | gymnasium.Env,
    name: str,
    *,
    episodes: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    target_return: Any = None,
    progress: bool = True,
    plugins: Sequence[str] = (),
    overwrite: bool = False,
    max_episode_steps: int | None = None,
) -> Dataset:
    """Play a policy or an agent in an environment, and write its episodes as a dataset that `train` reads.

    If the recording breaks off, by Ctrl-C or SIGTERM, by an exception of the policy or the environment, or by a number
    that is not finite, the episodes finished before are written as the dataset, unless it would replace one, a message
    says how many they are and where, and then the error is raised.

    Args:
        policy: A function from an observation to an action, as the environment has them; `random` for actions drawn
            from its action space; or an agent: a run, an actor, a result of `load_agent`, or a name that it accepts, or
            an exported policy. Actions are written unchanged.
        environment: A registered Gymnasium id; or an environment, which stays open. What is written is what was
            stepped, with all wrappers and in its spaces. An agent trained on the data is evaluated in the registered
            environment: if wrappers or arguments make this one different, or if it was not made by an id, a warning
            says so; register it under its own id.
        name: The name of the new dataset: `local/` and a word.
        episodes: The number of episodes to play.
        steps: Alternatively, the minimum number of steps to play, in whole episodes.
        seed: Episode i starts with reset(seed + i); drawn actions depend on it too.
        target_return: The target return of an agent, as for `Run.actor`.
        progress: Whether to show a progress bar.
        plugins: Modules to import first.
        overwrite: If the dataset exists, replace it once all episodes are played.
        max_episode_steps: The largest number of steps of an episode, which is then cut: truncated. If left out, the
            environment's own limit, or 10,000 if it has none.

    Returns:
        The dataset, which `train` accepts, and `decision-rnn train` by name; `.store` returns its episodes.

    Raises:
        InputError: If the name is taken or invalid, an argument is invalid, the environment cannot be made or has
            actions of a kind that agents are not trained on, an action is not of its space, or an action, observation
            or reward is not finite.
        KeyboardInterrupt: After Ctrl-C, SIGTERM or a notebook's stop button.

    Example:
        >>> def push(observation):  # the way the car already rolls: position, velocity
        ...     return np.where(observation[1:] > 0, 1.0, -1.0)
        >>> dataset = decision_rnn.record(push, "MountainCarContinuous-v0", "local/push", episodes=3, progress=False)
        >>> dataset.name, dataset.store.num_episodes
        ('local/push', 3)
    """
    episodes, steps = convert(episodes, PositiveInt | None, "episodes"), convert(steps, PositiveInt | None, "steps")
    if (episodes is None) == (steps is None):
        raise InputError(f"episodes is {episodes} and steps {steps}: give one of them")
    seed = convert(seed, NonNegativeInt, "seed")
    max_episode_steps = convert(max_episode_steps, PositiveInt | None, "max_episode_steps")
    import_plugins(plugins)
    with contextlib.ExitStack() as stack:
        stack.enter_context(quiet(not progress))
        if isinstance(environment, str):
            environment = stack.enter_context(contextlib.closing(make_environment(environment)))
        if isinstance(environment, gymnasium.vector.VectorEnv):
            raise InputError(f"{environment} is a vector of environments: give a single one, as gymnasium.make does.")
        spec = getattr(environment, "spec", None)
        settings = None if spec is None else settings_of(spec)
        if altered := "no id" if spec is None else describe_alteration(spec.id, settings):
            warn(
                f"agents trained on {name} cannot be evaluated in {spec.id if spec else environment}, which has "
                f"{altered}: register a function that makes it (gymnasium.register) and record in that"
            )
        act = _acting(policy, environment, target_return, seed)
        stack.enter_context(torch.random.fork_rng(devices=[]))
        torch.manual_seed(seed)  # of sampled actions
        interruption, errors = stack.enter_context(Interruption(patient=True)), list[BaseException]()
        replaces = LocalSource().folder(name).exists()
        played = take(play(environment, act, seed, max_episode_steps), episodes, steps, "recording")
        store = write_store(
            name,
            _until_error(played, interruption, errors, replaces),
            None if spec is None else spec.id,
            environment_settings=settings,
            overwrite=overwrite,
            observation_space=environment.observation_space,
            action_space=environment.action_space,
        )
    if errors:
        warn(f"the recording broke off: {store.path} has {pluralize(store.num_episodes, 'finished episode')}")
        raise errors[0]
    return open_dataset(name)


def _until_error(
    episodes: Iterator[Episode], interruption: Interruption, errors: list[BaseException], replaces: bool
) -> Iterator[Episode]:
    """Episodes up to the first error or Ctrl-C, which goes to `errors`, or is raised if none is finished, or if the
    dataset replaces another."""
    for finished in itertools.count():
        try:
            episode = None if interruption.requested else interruption.call(partial(next, episodes, None))
            if interruption.requested:
                raise KeyboardInterrupt
        except BaseException as error:
            if replaces or not finished:
                raise
            errors.append(error)
            return
        if episode is None:
            return
        yield episode


def _acting(policy: Any, environment: gymnasium.Env, target_return: Any, seed: int) -> Act:
    """The policy as a function of observation, previous reward and whether an episode begins."""
    if policy != "random" and not callable(policy):
        agent, _ = find_policy(policy)
        if isinstance(agent, TrainedAgent):
            return EnvironmentActor(agent, target_return, env=environment)
        policy = agent.actor
    if isinstance(policy, Actor):
        if target_return is not None:
            policy.reset(target_return)
        return policy
    if target_return is not None:
        raise InputError(f"target_return is {target_return!r:.100}, but the policy is no agent: leave it out")
    if policy == "random":
        environment.action_space.seed(seed)
        return lambda *_: environment.action_space.sample()
    return lambda observation, *_: policy(observation)
