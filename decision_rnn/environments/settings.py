"""How an environment is registered here, beside the settings that a dataset was collected with.

No environment is made with a dataset's settings, which could name any code: an agent is evaluated in the registered
environment, if that is the one of the data.
"""

import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from decision_rnn.data.spaces import layouts_of
from decision_rnn.environments.registry import (
    MissingEnvironmentError,
    environment_spaces,
    open_environments,
    registered,
)
from decision_rnn.utils.errors import InputError

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
RENDERING_ARGUMENTS = ("num_envs", "vectorization_mode", "render_mode", "width", "height", "camera_id", "camera_name")
"""Arguments for making environments that do not change their behaviour."""
WATCHING_WRAPPERS = ("RecordEpisodeStatistics", "RecordVideo", "RenderCollection", "HumanRendering")
"""Gymnasium wrappers that change neither observations, actions nor rewards."""


def known_spaces(
    environment_id: str | None, settings: dict[str, Any] | None = None
) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]] | None:
    """The spaces of an environment; None if it cannot be made here with these settings."""
    with contextlib.suppress(MissingEnvironmentError):
        return None if describe_alteration(environment_id, settings) else environment_spaces(environment_id)
    return None


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
    fault = None
    try:
        layouts_of(environment_spaces(environment_id), str(environment_id))
        if altered := describe_alteration(environment_id, settings):
            fault = f"the data were collected in {environment_id} with {altered}. Register that under an id of its own"
    except MissingEnvironmentError as error:
        required = ", ".join(map(repr, requirements))
        fault = f"{error} (the dataset requires {required:.300})" if requirements else str(error)
    if fault is not None or environment_id is None:
        raise InputError(fault)
    return environment_id


def describe_alteration(environment_id: str | None, settings: dict[str, Any] | None) -> str | None:
    """How a dataset's settings differ from those of the registered environment; None if they do not, or are not
    known."""
    spec = registered(environment_id)
    if settings is None or spec is None:
        return None
    altered = _first_difference(settings, settings_of(spec))
    if altered is not None:  # a registered function may wrap what it makes, or give it a time limit
        with contextlib.suppress(MissingEnvironmentError), open_environments(environment_id) as (environment,):
            if environment.spec is None or _first_difference(settings, settings_of(environment.spec)) is None:
                return None
    return altered


def _first_difference(settings: dict[str, Any], expected: dict[str, Any]) -> str | None:
    for key, value in expected.items():
        if (settings.get(key) or None) != (value or None):
            return f"{key} {settings.get(key)!r:.200}, not {value!r:.200}"
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
    # Without their addresses, functions are the same in every process.
    return json.loads(json.dumps(settings, default=lambda value: ADDRESS.sub("", repr(value))))
