"""Converts the arguments of a Python call to options of a run, with the same keys as its YAML file."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from pydantic_core import to_jsonable_python

from decision_rnn.config import CHOICES, EvaluationConfig, flatten, overlay, to_dict
from decision_rnn.training.checkpoint import load_agent
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import convert


def plain(value: Any) -> Any:
    """A value as in a YAML file: dictionaries for configurations, numbers for numpy values, text for paths."""
    return to_jsonable_python(value, fallback=lambda array: array.tolist())


def run_keys(config: Mapping[str, Any], steps: int | None) -> dict[str, Any]:
    """The keyword arguments of a run as plain values, with `steps`, if there are any, in the training section."""
    keys: dict[str, Any] = plain(config)
    return keys if steps is None else {**keys, "training": {**keys.get("training", {}), "steps": plain(steps)}}


def with_architecture(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Flat keys of a run, completed by the architecture of the agent that their `init_from` names, if they do.

    Raises:
        InputError: If there is no such agent, or the keys choose another backbone, condition or objective.
    """
    name = convert(keys.get("init_from"), str | None, "init_from")
    if name is None:
        return dict(keys)
    config = load_agent(name).config
    saved = flatten(to_dict(replace(config, condition=config.condition_options, objective=config.objective_options)))
    sections = (*CHOICES, "observation", "agent")
    architecture = {key: value for key, value in saved.items() if key.partition(".")[0] in sections}
    for key in (f"{section}.name" for section in CHOICES):
        if keys.get(key, saved[key]) != saved[key]:
            raise InputError(f"{key} is {keys[key]!r:.100}, but init_from {name} has {saved[key]}. Leave it out.")
    return overlay(architecture, keys)


def evaluation_settings(configured: EvaluationConfig, **overrides: Any) -> EvaluationConfig:
    """The configured settings, overridden by those that are not None; raises InputError for an invalid one."""
    values = {name: plain(value) for name, value in overrides.items() if value is not None}
    settings: EvaluationConfig = convert({**asdict(configured), **values}, EvaluationConfig)
    if "window" in values and settings.inference != "window":
        raise InputError(f"window is {settings.window}, but inference is recurrent. Pass inference='window'.")
    return settings
