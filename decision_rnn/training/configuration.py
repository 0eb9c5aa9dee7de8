"""Converts the arguments of a Python call to the configuration of a run, with the same keys as its YAML file."""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.config import CHOICES, EvaluationConfig, flatten, overlay, to_dict
from decision_rnn.training.checkpoint import load_agent
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import convert

ARCHITECTURE = (*CHOICES, "observation", "agent")
"""The sections of a configuration that a run which starts from an agent's weights shares with it."""


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
    architecture = {key: value for key, value in saved.items() if key.partition(".")[0] in ARCHITECTURE}
    for section in CHOICES:
        chosen, trained = keys.get(f"{section}.name"), architecture[f"{section}.name"]
        if chosen not in (None, trained):
            raise InputError(f"{section} is {chosen!r:.100}, but init_from {name} has {trained}. Leave {section} out.")
    return overlay(architecture, keys)


def run_keys(config: Mapping[str, Any], steps: int | None, source: str) -> dict[str, Any]:
    """The keyword arguments of a run as plain values, with `steps` in the training section; raises InputError, naming
    `source`, if one is given twice."""
    keys: dict[str, Any] = plain(config)
    if "dataset" in keys:
        raise InputError(f"{source}: dataset is given twice, as {keys['dataset']!r:.100} and as the first argument.")
    if steps is not None:
        training = keys.setdefault("training", {})
        if not isinstance(training, dict) or "steps" in training:
            raise InputError(f"{source}: steps and training={training!r:.100} are both given. Leave one of them out.")
        training["steps"] = plain(steps)
    return keys


def evaluation_settings(configured: EvaluationConfig, **overrides: Any) -> EvaluationConfig:
    """The configured settings, overridden by those that are not None; raises InputError for an invalid one."""
    values = {name: plain(value) for name, value in overrides.items() if value is not None}
    settings: EvaluationConfig = convert({**asdict(configured), **values}, EvaluationConfig)
    if "window" in values and settings.inference != "window":
        raise InputError(
            f"window is {settings.window}, but inference is {settings.inference}. Pass inference='window'."
        )
    return settings


def output_folder(output: Any) -> Path | None:
    """The folder given by `output`, or None; raises InputError if it is not a path."""
    if output is not None and (not isinstance(output, str | Path) or output == ""):
        raise InputError(f"output is {output!r:.100}: it must be the path of a folder")
    return None if output is None else Path(output)


def plain(value: Any) -> Any:
    """A value as in a YAML file: dictionaries for configurations, numbers for numpy values, text for paths."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    return str(value) if isinstance(value, Path) else value
