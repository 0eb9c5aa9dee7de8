"""From keys and values to the configuration of a run, checked against the dataclasses in config.py.

Files, command lines and Python calls fill one dictionary, whose sections may be dictionaries or dotted keys:
`{"training": {"steps": 5}}` is `{"training.steps": 5}`, and `{"backbone": "lru"}` is `{"backbone.name": "lru"}`.
"""

import math
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from decision_rnn.agent.config import CONDITIONS, OBJECTIVES, GaussianMixtureConfig
from decision_rnn.backbones.config import BACKBONES
from decision_rnn.backbones.time_scales import LONGEST
from decision_rnn.config import DEFAULT_BACKBONE, DEFAULT_CONDITION, DEFAULT_OBJECTIVE, RunConfig
from decision_rnn.utils.errors import InputError, did_you_mean
from decision_rnn.utils.parsing import Option, convert, options_of, parse_count, suggest
from decision_rnn.utils.plugins import check_plugins
from decision_rnn.utils.registry import Registration, Registry

RUN_OPTIONS = options_of(RunConfig)
SECTIONS = tuple(name for name, option in RUN_OPTIONS.items() if is_dataclass(option.hint))
CHOICES: dict[str, tuple[Registry[Any, Any], str]] = {
    "backbone": (BACKBONES, DEFAULT_BACKBONE),
    "condition": (CONDITIONS, DEFAULT_CONDITION),
    "objective": (OBJECTIVES, DEFAULT_OBJECTIVE),
}
"""Sections whose keys depend on their `name`, with its default."""
IN_FEW_STEPS = {"objective.name": GaussianMixtureConfig().name, "training.optimizer": "muon"}
"""Defaults where agents are asked to reach goals in few steps: data of play go several ways, and take long to learn."""
WIDTH = "backbone.width"
MATCH = Option(
    "backbone.match_parameters",
    int | str | None,
    None,
    "Instead of a width: find the one that gives the backbone about this many parameters, such as 600k.",
)
INFINITE = ("training.gradient_clip",)
"""Keys that may be infinite."""
RENAMED: dict[str, tuple[str, dict[Any, Any]]] = {
    "best_fraction": ("top_fraction", {}),
    "training.averaging": ("training.ema_decay", {}),
    "training.carry": ("training.tbptt_segments", {}),
    "agent.return_limit": ("condition.rtg_cap", {}),
    "agent.return_noise": ("condition.noise", {}),
    "agent.return_conditioning": ("condition.name", {True: "return_to_go", False: "none"}),
    "evaluation.state": ("evaluation.state", {"carry": "recurrent"}),
    "objective.name": ("objective.name", {"mse": "supervised"}),
}
"""Keys of version 0.2, each with its present name and its renamed values: translated in saved files, refused in what a
user writes."""
TIME_SCALES = "backbone.memory is the longest half-life of the state at the start of training, in steps, for all layers"
REMOVED = {
    "actions": "actions are always scaled from the environment's box and clipped to it",
    **dict.fromkeys((f"backbone.{key}" for key in ("forget_bias", "r_min", "r_max", "dt_min", "dt_max")), TIME_SCALES),
}
"""Keys of version 0.2 that went, and why: left out of saved files, refused likewise."""


def new_config(data: Mapping[str, Any], source: str) -> RunConfig:
    """The configuration of a run from keys and values, with defaults for the rest.

    Raises:
        InputError: Naming `source` and the key that is unknown, missing or has an invalid value.
    """
    keys = completed(flatten(data, source))
    try:
        plugins = convert(keys.get("plugins", ()), tuple[str, ...], "plugins")
        check_plugins(plugins, "it")
        return _build(keys)
    except ValueError as error:  # of this module or of a section's own checks
        raise InputError(f"{source}: {error}") from None


def from_dict(data: Mapping[str, Any], source: str) -> RunConfig:
    """The configuration that `to_dict` of this version or of 0.2 wrote; errors as for `new_config`."""
    return new_config(translated(flatten(data, source)), source)


def translated(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Flat keys that version 0.2 saved, with their present names and values."""
    keys: dict[str, Any] = _memory_of_0_2(saved)
    removed = REMOVED if keys else {key for key in REMOVED if not key.startswith("backbone.")}  # else a plugin's own
    for key, value in saved.items():
        if key in removed:
            continue
        name, values = RENAMED.get(key, (key, {}))
        keys[name] = values.get(value, value) if isinstance(value, str | bool) else value
    if keys.get("condition.name") == "none":  # 0.2 saved a limit of the return-to-go that was not used
        keys = {key: value for key, value in keys.items() if key not in ("condition.rtg_cap", "condition.noise")}
    return keys


def _memory_of_0_2(saved: Mapping[str, Any]) -> dict[str, float]:
    """`backbone.memory` of a layer that version 0.2 saved without, from its keys then: its longest half-life."""
    name, heads = saved.get("backbone.name", DEFAULT_BACKBONE), saved.get("backbone.heads", 4)
    opened = 1 / (1 + math.exp(-saved.get("backbone.forget_bias", 1.0 if name == "lstm" else 0.0)))
    slowest = 1.0 if saved.get("backbone.start") == "real" else 0.5
    kept = {
        "gru": 0.5,
        "lru": saved.get("backbone.r_max", 0.99),
        "lstm": opened,
        "mamba": math.exp(-1e-3),
        "mingru": opened,
        "minlstm": opened / (opened + 0.5),
        "mlstm": 1 / (1 + math.exp(-6)),
        "retention": 1 - 2.0 ** -(4 + heads),
        "s4d": math.exp(-slowest * saved.get("backbone.dt_min", 1e-3)),
    }.get(name)
    if kept is None or "backbone.memory" in saved:
        return {}
    return {"backbone.memory": 1.0 if kept <= 0.5 else LONGEST if kept >= 1 else min(math.log(0.5, kept), LONGEST)}


def flatten(data: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Keys and values with sections as dotted keys."""
    keys: dict[str, Any] = {}
    for key, value in data.items():
        if key in CHOICES and isinstance(value, str):
            keys[f"{key}.name"] = value
        elif key not in SECTIONS:
            keys[str(key)] = value
        elif isinstance(value, Mapping):
            keys |= {f"{key}.{name}": entry for name, entry in value.items()}
        else:
            raise InputError(f"{source}: {key} is {value!r:.100}: it must hold keys and values")
    return keys


def overlay(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Flat keys, overridden by others, of which a width and a number of parameters override each other too."""
    widths = {WIDTH, MATCH.name}
    return {key: value for key, value in base.items() if not (key in widths and widths & own.keys())} | dict(own)


def completed(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Flat keys, with the defaults that other keys change: `IN_FEW_STEPS` where agents are asked for goals so."""
    asks = keys.get("condition.name", DEFAULT_CONDITION) == DEFAULT_CONDITION
    in_few_steps = asks and keys.get("training.goal_relabeling") == "hindsight"
    return {**IN_FEW_STEPS, **keys} if in_few_steps else dict(keys)


def chosen(section: str, name: str) -> Registration[Any, Any]:
    """The backbone, condition or objective of that name; InputError if there is none."""
    registry = CHOICES[section][0]
    if name not in registry.entries:
        hint = did_you_mean(name, registry.names()) or f"--plugins names the module that registers your own {section}"
        raise InputError(f"unknown {section} {name!r:.100}; known: {', '.join(registry.names())}; {hint}")
    return registry.registered(name)


def run_options(keys: Mapping[str, Any]) -> dict[str, Option]:
    """All keys of a run with the backbone, condition and objective that flat `keys` choose."""
    options = {name: option for name, option in RUN_OPTIONS.items() if name not in SECTIONS}
    for section in SECTIONS:
        for key, option in options_of(_section_class(section, keys)).items():
            options[f"{section}.{key}"] = replace(option, name=f"{section}.{key}")
    return options | {MATCH.name: MATCH}


def _section_class(section: str, keys: Mapping[str, Any]) -> Any:
    if section not in CHOICES:
        return RUN_OPTIONS[section].hint
    return chosen(section, convert(keys.get(f"{section}.name", CHOICES[section][1]), str, f"{section}.name")).config


def _build(keys: Mapping[str, Any]) -> RunConfig:
    for key, value in keys.items():
        name, renamed = RENAMED.get(key, (key, {}))
        if name != key or (isinstance(value, str) and value in renamed):
            meaning = ", ".join(f"{new} for {str(old).lower()}" for old, new in renamed.items())
            raise InputError(f"{key} has been renamed: use {name}{meaning and f' ({meaning})'}")
    options = run_options(keys)
    for key in keys:
        if key not in options:
            if key in REMOVED:
                raise InputError(f"{key} is no key any more, leave it out: {REMOVED[key]}")
            section = key.partition(".")[0]
            if section in CHOICES:
                choice = f"{section} {keys.get(f'{section}.name', CHOICES[section][1])}"
                raise InputError(f"the {choice} has no {key}: `decision-rnn train --{choice} --help` lists its keys")
            hint = suggest(key, [*options, *SECTIONS])
            raise InputError(f"unknown key {key!r:.100}; {hint}`decision-rnn train --help` lists the keys")
    values = {key: convert(value, options[key].hint, key, key in INFINITE) for key, value in keys.items()}
    if "dataset" not in values:
        raise InputError("no dataset was named: give one, such as hopper-medium")
    parameters = values.pop(MATCH.name, None)
    if parameters is not None and WIDTH in values:
        raise InputError(f"{MATCH.name} finds the width, so {WIDTH} cannot be given too: leave one of the two out")
    top = {key: value for key, value in values.items() if "." not in key}
    for section in SECTIONS:
        given = {key.partition(".")[2]: value for key, value in values.items() if key.startswith(f"{section}.")}
        kind = _section_class(section, keys)
        if section == "backbone" and parameters is not None:
            from decision_rnn.backbones import match_parameters  # here: it imports torch

            top[section] = match_parameters(kind, parse_count(parameters, MATCH.name), **given)
        else:
            top[section] = kind(**given)
    return RunConfig(**top)
