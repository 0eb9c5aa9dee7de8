"""The environments that datasets were collected in: needed to evaluate an agent, not to read data or to train."""

import contextlib
import json
import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import gymnasium
import numpy as np

from decision_rnn.data.playing import Quota, play_one
from decision_rnn.data.store.episode import Episode
from decision_rnn.errors import InputError, did_you_mean
from decision_rnn.messages import warn

ID = re.compile(r"(?:[\w-]{1,100}/)?[\w.-]{1,100}")
REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w.,-]+\])?(?:(?:[<>=!~]=|[<>])[\w.*+!]+(?:,(?=[<>=!~]))?)*")
"""A package of the index as pip takes it: what a dataset asks for beside that, a URL or an option, is not passed on."""


BESIDE_THE_POINT = ("num_envs", "vectorization_mode", "render_mode", "width", "height", "camera_id", "camera_name")
"""What environments are made with that makes none of them another."""
WATCHING_WRAPPERS = ("RecordEpisodeStatistics", "RecordVideo", "RenderCollection", "HumanRendering")
"""Gymnasium's wrappers that alter neither observations nor actions nor rewards."""


class MissingEnvironmentError(InputError):
    """An environment is not registered here, or cannot be made."""


def check_id(environment_id: Any, where: str) -> str:
    """The Gymnasium id that `where` names; InputError where it is none, or names a module to import ("os:X-v0")."""
    if not isinstance(environment_id, str) or not ID.fullmatch(environment_id):
        raise InputError(f"{where} names no environment: {environment_id!r:.100} is no Gymnasium id, such as Hopper-v5")
    return environment_id


def make_environment(environment_id: str, **settings: Any) -> gymnasium.Env:
    """The environment, without what its libraries say of their own files, which no user of a dataset can mend.

    MuJoCo's warnings about the simulation go to stderr; MUJOCO_LOG.TXT is not written. `settings` are for
    `gymnasium.make`, such as a render mode: ours alone, never a dataset's.

    Raises MissingEnvironmentError where the environment cannot be made here. Only an id that is registered is made:
    others could name a module to import.
    """
    import mujoco  # here, because it takes a while, and listing datasets needs none of it

    if environment_id not in gymnasium.registry:
        raise MissingEnvironmentError(
            f"there is no environment {environment_id!r} here: "
            f"{did_you_mean(environment_id, gymnasium.registry, likeness=0.8)}install the package that registers it, "
            "and name a module that does so when it is imported by --plugins MODULE"
        )
    if mujoco.get_mju_user_warning() is None:  # a program around us may have set its own
        mujoco.set_mju_user_warning(_report_mujoco)
    try:
        with warnings.catch_warnings():
            # A dataset is evaluated in the version that it was collected in, whether there is a newer one or not.
            warnings.filterwarnings("ignore", r".*The environment \S+ is out of date", DeprecationWarning)
            return gymnasium.make(environment_id, disable_env_checker=True, **settings)
    except Exception as error:  # of whatever it is made of
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MissingEnvironmentError(
            f"the environment {environment_id} cannot be made here ({reason:.300}): mend its package"
        ) from error


def _report_mujoco(message: str) -> None:
    if "'settotalmass' is deprecated" not in message:  # in Gymnasium's half_cheetah.xml
        warn(f"MuJoCo: {message}")


def environment_spaces(environment_id: str) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """Its observations' and its actions' space; MissingEnvironmentError where it cannot be made here."""
    environment = make_environment(environment_id)
    spaces = (environment.observation_space, environment.action_space)
    environment.close()
    return spaces


def environment_sizes(environment_id: str) -> tuple[int, int]:
    """How many numbers its observations and actions have.

    Raises MissingEnvironmentError where it cannot be made here, InputError where one of them is not a flat Box.
    """
    sizes = []
    for space, kind in zip(environment_spaces(environment_id), ("observations", "actions"), strict=True):
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
            raise InputError(f"{environment_id} has {kind} that are not flat vectors: {space}")
        sizes.append(space.shape[0])
    return sizes[0], sizes[1]


def check_environment(
    environment_id: str, requirements: Sequence[str] = (), settings: dict[str, Any] | None = None
) -> None:
    """Raise InputError, saying what to do, unless agents can be evaluated in an environment here.

    Args:
        environment_id: The Gymnasium id.
        requirements: What the dataset says that it is installed by (`DatasetSpec.requirements`).
        settings: What the dataset says of it beside the id (`DatasetSpec.environment_settings`): where they are not
            those it is registered with, it is another environment.
    """
    without = "or leave evaluation out, --evaluation.episodes 0"
    close = [re.sub(r" ?([<>=!~]=|[<>,]) ?", r"\1", requirement[:200]) for requirement in requirements]
    packages = [requirement for requirement in close if REQUIREMENT.fullmatch(requirement)]
    install = f"`pip install {' '.join(map(shlex.quote, packages))}`" if packages else "install its package"
    try:
        environment_sizes(environment_id)
    except MissingEnvironmentError as error:
        if environment_id in gymnasium.registry:
            asked = f", for which the dataset asks to {install}" if packages else ""
            raise MissingEnvironmentError(f"{error}{asked}, {without}") from None
        near = did_you_mean(environment_id, gymnasium.registry, likeness=0.8)
        module = re.split(r"[^\w-]", packages[0])[0].replace("-", "_") if packages else "layers"
        raise MissingEnvironmentError(
            f"the environment {environment_id!r} is not registered here, so no agent can be evaluated in it: {near}"
            f"{install} and name the module that registers it, such as --plugins {module}, {without}"
        ) from None
    except InputError as error:
        raise InputError(f"{error}: no agent can be evaluated in it, {without.removeprefix('or ')}") from None
    altered = describe_alteration(environment_id, settings)
    if altered:
        raise InputError(
            f"the data were collected in {environment_id} with {altered}, and agents are evaluated in the registered "
            f"one: register that environment under an id of its own and name it in the dataset, {without}"
        )


def describe_alteration(environment_id: str, settings: dict[str, Any] | None) -> str | None:
    """How the settings that a dataset names differ from those of the registered environment; None where they do not.

    It is never made with a dataset's settings, which could name any code.
    """
    if settings is None or environment_id not in gymnasium.registry:
        return None
    usual = registered_settings(environment_id)
    for key, value in usual.items():
        if (settings.get(key) or None) != (value or None):
            return f"{key} {settings.get(key)!r:.200}, not {value!r:.200}"
    return None


def registered_settings(environment_id: str) -> dict[str, Any]:
    """What an environment is registered with, in plain JSON: `kwargs`, `max_episode_steps`, `additional_wrappers`.

    Gymnasium's own `EnvSpec.to_json` refuses environments that are registered with a class for an entry point.
    """
    registered = gymnasium.registry[environment_id]
    settings = {
        "kwargs": registered.kwargs,
        "max_episode_steps": registered.max_episode_steps,
        "additional_wrappers": [asdict(wrapper) for wrapper in registered.additional_wrappers],
    }
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=repr))
    return plain


def settings_of(environment: gymnasium.Env | gymnasium.vector.VectorEnv) -> tuple[str, dict[str, Any]]:
    """The id of an environment that somebody has made, and what it was made with, as `registered_settings` gives it.

    Wrappers that alter neither observations, actions nor rewards are left out. Raises InputError where it has no id.
    """
    # A vector's own specification leaves out what each of its environments is wrapped in.
    made = environment.envs[0].spec if isinstance(environment, gymnasium.vector.SyncVectorEnv) else environment.spec
    if made is None:
        raise InputError(
            f"the environment {environment} has no id, so that no agent can be evaluated in it: register it "
            "(gymnasium.register) and make it by gymnasium.make"
        )
    kwargs = {key: value for key, value in made.kwargs.items() if key not in BESIDE_THE_POINT}
    wrappers = [asdict(wrapper) for wrapper in made.additional_wrappers if wrapper.name not in WATCHING_WRAPPERS]
    settings = {"kwargs": kwargs, "max_episode_steps": made.max_episode_steps, "additional_wrappers": wrappers}
    return made.id, json.loads(json.dumps(settings, default=repr))


def play_episodes(
    environment_id: str, policy: Callable[[np.ndarray], np.ndarray], episodes: int, seed: int = 0
) -> Iterator[Episode]:
    """Play episodes with a policy.

    Args:
        environment_id: A registered Gymnasium id with flat Box spaces.
        policy: A function from an observation (O,) to an action (A,).
        episodes: The number of episodes.
        seed: Episode i begins with the environment's reset(seed + i).

    Raises:
        InputError: If the environment cannot be made here or has other spaces, or an action has a different shape.
    """
    environment_sizes(environment_id)
    with contextlib.closing(make_environment(environment_id)) as environment:
        yield from play_one(environment, lambda observation, reward, first: policy(observation), Quota(episodes), seed)


def of_environment(
    episodes: Iterable[Episode], environment_id: str, name: str, sizes: tuple[int, int] | None
) -> Iterator[Episode]:
    """Yield the episodes of `name`; InputError where their sizes are not those of the environment.

    `sizes` are how many numbers its observations and actions have; None where nobody knows: nothing is checked then.
    """
    for index, episode in enumerate(episodes):
        found = episode.observations.shape[1:] + episode.actions.shape[1:]
        if sizes is not None and found != sizes:
            raise InputError(
                f"{name}: episode {index} has observations of shape {episode.observations.shape} and actions of "
                f"{episode.actions.shape} where {environment_id} has {sizes[0]} and {sizes[1]} numbers in each row: "
                "name the environment it came from"
            )
        yield episode
