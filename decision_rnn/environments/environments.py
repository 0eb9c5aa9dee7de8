"""The environments that datasets were collected in: needed to evaluate an agent, not to read data or train."""

import contextlib
import json
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from decision_rnn.data.episode import Episode
from decision_rnn.data.layouts import Layout
from decision_rnn.environments import memory, ogbench
from decision_rnn.environments.playing import EPISODES_AT_ONCE, Quota, play_one, spec_of
from decision_rnn.utils.errors import InputError, did_you_mean, one_line
from decision_rnn.utils.messages import warn

ID = re.compile(r"(?:[\w-]{1,100}/)?[\w.-]{1,100}")

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
RENDERING_ARGUMENTS = ("num_envs", "vectorization_mode", "render_mode", "width", "height", "camera_id", "camera_name")
"""Arguments for making environments that do not change their behaviour."""
WATCHING_WRAPPERS = ("RecordEpisodeStatistics", "RecordVideo", "RenderCollection", "HumanRendering", "DictInfoToList")
"""Gymnasium wrappers that change neither observations, actions nor rewards."""


class MissingEnvironmentError(InputError):
    """An environment is not registered, or cannot be made here."""


def check_id(environment_id: Any, where: str) -> str:
    """The id that `where` gives; raises InputError if it is not a Gymnasium id or imports a module ("os:X")."""
    if not isinstance(environment_id, str) or not ID.fullmatch(environment_id):
        raise InputError(
            f"{where} names no environment: {environment_id!r:.100} is not a Gymnasium id, such as Hopper-v5"
        )
    return environment_id


def registered(environment_id: str | None) -> EnvSpec | None:
    """The spec of a registered environment; None if there is none. Those of `data.memory` and `data.ogbench` are
    registered when they are first asked for."""
    if environment_id is not None:
        with contextlib.suppress(ModuleNotFoundError):
            _register(environment_id)
    return gymnasium.registry.get(environment_id or "")


def make_environment(environment_id: str | None, **settings: Any) -> gymnasium.Env:
    """Make an environment, without its libraries' warnings about their own files, which users cannot fix.

    MuJoCo's warnings about the simulation go to stderr; MUJOCO_LOG.TXT is not written. `settings` are arguments of
    `gymnasium.make`, such as a render mode; they never come from a dataset.

    Raises MissingEnvironmentError if the environment cannot be made here, or is None. Only registered ids are made:
    others could name a module to import.
    """
    if environment_id is None:
        raise MissingEnvironmentError(
            "the data name no environment, in which an agent could play: act in your own loop (EnvironmentActor, or an "
            "exported policy)"
        )
    import mujoco  # here: the import is slow, and listing datasets does not need it

    try:
        _register(environment_id)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise MissingEnvironmentError(
            f"{environment_id} needs the package {package}, which is missing: pip install 'decision-rnn[{package}]'"
        ) from None
    if environment_id not in gymnasium.registry:
        raise MissingEnvironmentError(
            f"there is no environment {environment_id!r} here: "
            f"{did_you_mean(environment_id, gymnasium.registry, likeness=0.8)}install the package that registers it, "
            "and name a module that does so when it is imported with --plugins MODULE"
        )
    if mujoco.get_mju_user_warning() is None:  # the calling program may have set its own
        mujoco.set_mju_user_warning(_report_mujoco)
    try:
        with warnings.catch_warnings():
            # A dataset is evaluated in the version that it was collected in, even if there is a newer one.
            warnings.filterwarnings("ignore", r".*The environment \S+ is out of date", DeprecationWarning)
            return gymnasium.make(environment_id, disable_env_checker=True, **settings)
    except Exception as error:  # the environment's code can raise anything
        raise MissingEnvironmentError(
            f"the environment {environment_id} cannot be made here ({one_line(error)}): fix its package"
        ) from error


def _register(environment_id: str) -> None:
    """Register an environment of ours; ModuleNotFoundError if the package that it needs is missing."""
    memory.register(environment_id)
    ogbench.register(environment_id)


def _report_mujoco(message: str) -> None:
    if "'settotalmass' is deprecated" not in message:  # in Gymnasium's half_cheetah.xml
        warn(f"MuJoCo: {message}")


def environment_spaces(environment_id: str | None) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """The observation and action spaces of an environment; raises MissingEnvironmentError if it cannot be made here."""
    environment = make_environment(environment_id)
    spaces = (environment.observation_space, environment.action_space)
    environment.close()
    return spaces


def episodes_at_once(environment_id: str, most: int) -> int:
    """How many episodes to step together: `most`, or fewer if the environment's metadata say so."""
    environment = make_environment(environment_id)
    said = environment.metadata.get(EPISODES_AT_ONCE, most)
    environment.close()
    return min(most, said)


def known_spaces(
    environment_id: str | None, settings: dict[str, Any] | None = None
) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]] | None:
    """The spaces of an environment; None if it cannot be made here with these settings."""
    with contextlib.suppress(MissingEnvironmentError):
        return None if describe_alteration(environment_id, settings) else environment_spaces(environment_id)
    return None


def layouts_of(spaces: Sequence[gymnasium.Space[Any] | None], where: str) -> tuple[Layout | None, Layout | None]:
    """How observations and actions of these spaces become rows, None where a space is not known.

    Raises InputError, with `where` for the environment, if agents cannot read or act in one.
    """
    try:
        observations = None if spaces[0] is None else Layout.of_space(spaces[0], "observations")
        actions = None if spaces[1] is None else Layout.of_actions(spaces[1])
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return observations, actions


def sizes_of(layouts: Sequence[Layout | None]) -> list[int | None]:
    """The sizes of rows, None where a layout is not known."""
    return [None if layout is None else layout.size for layout in layouts]


def check_environment(
    environment_id: str | None, requirements: Sequence[str] = (), settings: dict[str, Any] | None = None
) -> str:
    """The id of an environment; raises InputError, with a remedy, unless agents can be evaluated in it here.

    Args:
        environment_id: The Gymnasium id; None for data of no environment.
        requirements: The packages that the dataset declares for it (`DatasetSpec.requirements`).
        settings: The dataset's settings besides the id (`DatasetSpec.environment_settings`): if they differ from the
            registered ones, it is another environment.
    """
    try:
        layouts_of(environment_spaces(environment_id), str(environment_id))
    except InputError as error:
        asked = f" (the dataset asks for {', '.join(map(repr, requirements)):.300})" if requirements else ""
        raise type(error)(f"{error}{asked}") from None
    altered = describe_alteration(environment_id, settings)
    if altered:
        raise InputError(
            f"the data were collected in {environment_id} with {altered}, and agents are evaluated in the registered "
            f"one: register that environment under an id of its own and name it in the dataset"
        )
    assert environment_id is not None  # it has been made
    return environment_id


def describe_alteration(environment_id: str | None, settings: dict[str, Any] | None) -> str | None:
    """How a dataset's settings differ from those of the registered environment; None if they do not, or are not known.

    No environment is made with a dataset's settings, which could name any code.
    """
    if settings is None or environment_id is None or registered(environment_id) is None:
        return None
    altered = _first_difference(settings, registered_settings(environment_id))
    if altered is not None:  # a registered function may wrap what it makes, or give it a time limit
        with contextlib.suppress(MissingEnvironmentError), contextlib.closing(make_environment(environment_id)) as made:
            if _first_difference(settings, settings_of(made)[1] or {}) is None:
                return None
    return altered


def _first_difference(settings: dict[str, Any], expected: dict[str, Any]) -> str | None:
    for key, value in expected.items():
        if (settings.get(key) or None) != (value or None):
            return f"{key} {settings.get(key)!r:.200}, not {value!r:.200}"
    return None


def time_limit(environment_id: str) -> int | None:
    """The largest number of steps of an episode in a registered environment; None if it has no limit."""
    spec = registered(environment_id)
    limit = None if spec is None else spec.max_episode_steps
    if limit is None:  # a registered function may give it one
        with contextlib.suppress(MissingEnvironmentError), contextlib.closing(make_environment(environment_id)) as made:
            limit = None if made.spec is None else made.spec.max_episode_steps
    return limit


def registered_settings(environment_id: str) -> dict[str, Any]:
    """The settings of a registered environment, in plain JSON: `kwargs`, `max_episode_steps`, `additional_wrappers`.

    Gymnasium's own `EnvSpec.to_json` refuses environments whose entry point is a class.
    """
    spec = registered(environment_id)
    assert spec is not None, environment_id
    return _settings(spec)


def settings_of(
    environment: gymnasium.Env | gymnasium.vector.VectorEnv,
) -> tuple[str, dict[str, Any]] | tuple[None, None]:
    """The id and the settings of an existing environment, in the form of `registered_settings`; None if it has no id.

    Wrappers that change neither observations, actions nor rewards are left out.
    """
    made = spec_of(environment)
    around: list[dict[str, Any]] = []  # wrappers of the vector environment, innermost first: its spec leaves them out
    while isinstance(environment, gymnasium.vector.VectorWrapper):
        kind = type(environment)
        around.insert(0, {"name": kind.__name__, "entry_point": f"{kind.__module__}:{kind.__name__}", "kwargs": None})
        environment = environment.env
    return (None, None) if made is None else (made.id, _settings(made, around))


def _settings(spec: EnvSpec, around: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    wrappers = [*map(asdict, spec.additional_wrappers), *around]
    limit = {"max_episode_steps": spec.max_episode_steps}  # make_vec gives it also to environments with a vector form
    settings = {
        "kwargs": {
            key: value
            for key, value in spec.kwargs.items()
            if key not in RENDERING_ARGUMENTS and (key, value) not in limit.items()
        },
        "max_episode_steps": spec.max_episode_steps,
        "additional_wrappers": [wrapper for wrapper in wrappers if wrapper["name"] not in WATCHING_WRAPPERS],
    }
    # Without their addresses, functions are the same in every process.
    return json.loads(json.dumps(settings, default=lambda value: ADDRESS.sub("", repr(value))))


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
        InputError: If the environment cannot be made here or has other spaces, or an action has a different shape.
    """
    with contextlib.closing(make_environment(environment_id)) as environment:
        yield from play_one(environment, lambda observation, reward, first: policy(observation), Quota(episodes), seed)
