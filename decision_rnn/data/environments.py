"""The environments that datasets were collected in."""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator

import gymnasium
import numpy as np

from decision_rnn.data.store.episodes import Episode
from decision_rnn.errors import InputError


def make_environment(environment_id: str) -> gymnasium.Env:
    """The environment, without what its libraries say of their own files, which no user of a dataset can mend.

    MuJoCo's warnings about the simulation go to stderr; MUJOCO_LOG.TXT is not written.

    Raises InputError where the environment cannot be made here. Only an id that is registered is made: others could
    name a module to import.
    """
    import mujoco  # here, because it takes a while, and listing datasets needs none of it

    if environment_id not in gymnasium.registry:
        raise InputError(f"there is no environment {environment_id!r} here: install the package that registers it")
    if mujoco.get_mju_user_warning() is None:  # a program around us may have set its own
        mujoco.set_mju_user_warning(_report_mujoco)
    try:
        with warnings.catch_warnings():
            # A dataset is evaluated in the version that it was collected in, whether there is a newer one or not.
            warnings.filterwarnings("ignore", r".*The environment \S+ is out of date", DeprecationWarning)
            return gymnasium.make(environment_id, disable_env_checker=True)
    except Exception as error:  # of whatever it is made of
        raise InputError(f"the environment {environment_id} cannot be made here ({error}): mend its package") from error


def _report_mujoco(message: str) -> None:
    if "'settotalmass' is deprecated" not in message:  # in Gymnasium's half_cheetah.xml
        print(f"MuJoCo: {message}", file=sys.stderr)


def environment_sizes(environment_id: str) -> tuple[int, int]:
    """How many numbers its observations and actions have.

    Raises InputError where the environment cannot be made here and where one of them is not a flat Box.
    """
    environment = make_environment(environment_id)
    spaces = (environment.observation_space, environment.action_space)
    environment.close()
    sizes = []
    for space, kind in zip(spaces, ("observations", "actions"), strict=True):
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
            raise InputError(f"{environment_id} has {kind} that are not flat vectors: {space}")
        sizes.append(space.shape[0])
    return sizes[0], sizes[1]


def play_episodes(
    environment_id: str, policy: Callable[[np.ndarray], np.ndarray], episodes: int, seed: int = 0
) -> Iterator[Episode]:
    """Play episodes with a policy.

    Args:
        environment_id: A registered Gymnasium id with flat Box spaces.
        policy: From an observation (O,) to an action (A,).
        episodes: How many.
        seed: Episode i begins with the environment's reset(seed + i).
    """
    _, action_dim = environment_sizes(environment_id)
    environment = make_environment(environment_id)
    for index in range(episodes):
        observation, _ = environment.reset(seed=seed + index)
        observations, actions, rewards = [observation], [], []
        terminated = truncated = False
        while not (terminated or truncated):
            action = np.asarray(policy(observation))
            if action.shape != (action_dim,):
                raise InputError(
                    f"the policy gave an action of shape {action.shape} where {environment_id} needs ({action_dim},)"
                )
            observation, reward, terminated, truncated, _ = environment.step(action)
            observations.append(observation)
            actions.append(action)
            rewards.append(float(reward))
        arrays = np.stack(observations), np.stack(actions), np.array(rewards)
        yield Episode(*arrays, bool(terminated), bool(truncated), seed + index)


def of_environment(episodes: Iterable[Episode], environment_id: str, name: str) -> Iterator[Episode]:
    """Yield the episodes of `name`; InputError where their sizes are not those of the environment."""
    needed = environment_sizes(environment_id)
    for index, episode in enumerate(episodes):
        sizes = episode.observations.shape[1:] + episode.actions.shape[1:]
        if sizes != needed:
            raise InputError(
                f"{name}: episode {index} has observations of shape {episode.observations.shape} and actions of "
                f"{episode.actions.shape} where {environment_id} has {needed[0]} and {needed[1]} numbers in each row: "
                "name the environment it came from"
            )
        yield episode
