"""Environments by id: those that are registered here are made, and compared with the ones that data were collected in.

No environment is made with a dataset's settings, which could name any code: an agent is evaluated in the registered
environment, if that is the one of the data.
"""

import contextlib
import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from decision_rnn.environments import memory, ocbench, ogbench, sensor_fault
from decision_rnn.environments.reuse import EPISODES_AT_ONCE
from decision_rnn.environments.spaces import Spaces, layouts_of
from decision_rnn.utils.errors import InputError, did_you_mean, install, one_line
from decision_rnn.utils.messages import warn

ID = re.compile(r"(?:[\w-]{1,100}/)?[\w.-]{1,100}")
EXTRAS = ("ocbench", "ogbench", "popgym")
"""Packages of environments, each an extra of this one."""
RENDERING_ARGUMENTS = ("num_envs", "vectorization_mode", "render_mode", "width", "height", "camera_id", "camera_name")
"""Arguments for making environments that do not change their behaviour."""
WATCHING_WRAPPERS = ("RecordEpisodeStatistics", "RecordVideo", "RenderCollection", "HumanRendering")
"""Gymnasium wrappers that change neither observations, actions nor rewards."""


class MissingEnvironmentError(InputError):
    """An environment is not registered, or cannot be made here."""


def check_id(environment_id: Any, where: str) -> str:
    """The id that `where` gives; raises InputError if it is not a Gymnasium id or imports a module ("os:X")."""
    if not isinstance(environment_id, str) or not ID.fullmatch(environment_id):
        raise InputError(f"{where}: {environment_id!r:.100} is not a Gymnasium id, such as Hopper-v5")
    return environment_id


def _register(environment_id: str) -> None:
    """Register an environment of ours; ModuleNotFoundError if the package that it needs is missing."""
    if environment_id not in gymnasium.registry:
        memory.register(environment_id)
        ogbench.register(environment_id)
        ocbench.register(environment_id)
        sensor_fault.register(environment_id, _register)


def registered(environment_id: str | None) -> EnvSpec | None:
    """The spec of a registered environment; None if there is none, or the package that it needs is missing."""
    with contextlib.suppress(ModuleNotFoundError):
        _register(environment_id or "")
    return gymnasium.registry.get(environment_id or "")


def make_environment(environment_id: str | None, **settings: Any) -> gymnasium.Env:
    """Make an environment, without its libraries' warnings about their own files, which users cannot fix.

    MuJoCo's warnings about the simulation go to stderr; MUJOCO_LOG.TXT is not written. `settings` are arguments of
    `gymnasium.make`, such as a render mode; they never come from a dataset.

    Raises:
        MissingEnvironmentError: If the environment cannot be made here, or is None. Only registered ids are made:
            others could name a module to import.
    """
    with contextlib.suppress(Exception):  # only environments that need MuJoCo fail below
        import mujoco  # here: the import is slow, and listing datasets does not need it

        if mujoco.get_mju_user_warning() is None:  # the calling program may have set its own
            mujoco.set_mju_user_warning(_report_mujoco)
    try:
        _register(environment_id or "")
        if environment_id not in gymnasium.registry:
            raise gymnasium.error.UnregisteredEnv
        with warnings.catch_warnings():
            # A dataset is evaluated in the version that it was collected in, even if there is a newer one.
            warnings.filterwarnings("ignore", r".*The environment \S+ is out of date", DeprecationWarning)
            return gymnasium.make(environment_id, disable_env_checker=True, **settings)
    except Exception as error:  # the environment's code can raise anything
        missing = f"there is no environment{f' {environment_id!r} here' if environment_id else ''}"
        raise MissingEnvironmentError(f"{missing}: {_remedy(environment_id, error)}") from error


def _remedy(environment_id: str | None, error: Exception) -> str:
    if environment_id is None:
        return "the data have none. An agent can act in your own loop (EnvironmentActor, or an exported policy)"
    if isinstance(error, gymnasium.error.UnregisteredEnv):
        suggestion = did_you_mean(environment_id, gymnasium.registry, likeness=0.8)
        return f"{suggestion}Name a module that registers it with --plugins MODULE"
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return install(error.name)
    return one_line(error)


def _report_mujoco(message: str) -> None:
    if "'settotalmass' is deprecated" not in message:  # in Gymnasium's half_cheetah.xml
        warn(f"MuJoCo: {message}")


def _spaces_and_alteration(environment_id: str | None, settings: dict[str, Any] | None) -> tuple[Spaces, str | None]:
    """The spaces of an environment, and as `describe_alteration`; MissingEnvironmentError if it cannot be made here."""
    with contextlib.closing(make_environment(environment_id)) as made:
        spaces = made.observation_space, made.action_space
        if settings is not None and made.spec is not None:
            pair = settings, settings_of(made.spec)
            # An infinite bound is null in the metadata of an exported policy.
            settings, expected = (json.loads(json.dumps(x), parse_constant=lambda _: None) for x in pair)
            for key, value in expected.items():
                if settings.get(key) != value:
                    return spaces, f"{key} {settings.get(key)!r:.200}, not {value!r:.200}"
        return spaces, None


def episodes_at_once(environment_id: str, most: int) -> int:
    """How many episodes to step together: `most`, or fewer if the environment's metadata say so."""
    with contextlib.closing(make_environment(environment_id)) as environment:
        return min(most, environment.metadata.get(EPISODES_AT_ONCE, most))


def known_spaces(environment_id: str | None, settings: dict[str, Any] | None = None) -> Spaces | None:
    """The spaces of an environment; None if it cannot be made here with these settings."""
    with contextlib.suppress(MissingEnvironmentError):
        spaces, altered = _spaces_and_alteration(environment_id, settings)
        return None if altered else spaces
    return None


def check_environment(
    environment_id: str | None, requirements: Sequence[str] = (), settings: dict[str, Any] | None = None
) -> Spaces:
    """The spaces of an environment; raises InputError, with a remedy, unless agents can be evaluated in it here.

    Args:
        environment_id: The Gymnasium id; None for data of no environment.
        requirements: The packages that the dataset declares for it (`DatasetSpec.requirements`).
        settings: The dataset's settings besides the id (`DatasetSpec.environment_settings`): if they differ from the
            registered ones, it is another environment.
    """
    try:
        spaces, altered = _spaces_and_alteration(environment_id, settings)
    except MissingEnvironmentError as error:
        required = ", ".join(map(repr, requirements))
        raise InputError(f"{error} (the dataset requires {required:.300})" if requirements else str(error)) from None
    layouts_of(spaces, str(environment_id))
    if altered:
        raise InputError(
            f"the data were collected in {environment_id} with {altered}. Register that under an id of its own"
        )
    return spaces


def describe_alteration(environment_id: str | None, settings: dict[str, Any] | None) -> str | None:
    """How a dataset's settings differ from those of the environment as it is made here; None if they do not, or are not
    known."""
    with contextlib.suppress(MissingEnvironmentError):
        return _spaces_and_alteration(environment_id, settings)[1]
    return None


def settings_of(spec: EnvSpec) -> dict[str, Any]:
    """The settings of an environment besides its id, in plain JSON: `kwargs`, `max_episode_steps` and
    `additional_wrappers`, without what changes neither observations, actions nor rewards.

    Gymnasium's own `EnvSpec.to_json` refuses environments whose entry point is a class.
    """
    settings = {
        "kwargs": {key: value for key, value in spec.kwargs.items() if key not in RENDERING_ARGUMENTS},
        "max_episode_steps": spec.max_episode_steps,
        "additional_wrappers": [
            asdict(wrapper) for wrapper in spec.additional_wrappers if wrapper.name not in WATCHING_WRAPPERS
        ],
    }
    # Functions are named by their class, since their address differs in every process.
    return json.loads(json.dumps(settings, default=lambda value: type(value).__name__))
