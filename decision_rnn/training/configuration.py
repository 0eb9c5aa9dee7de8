"""Converts the arguments of a Python call to options of a run, with the same keys as its YAML file."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from decision_rnn.config import CHOICES, flatten, overlay, to_dict
from decision_rnn.runs.checkpoint import load_agent
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import convert, plain


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
