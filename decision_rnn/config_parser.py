"""Strict parsing of a run's configuration: every key is typed, and an error is one sentence.

YAML files, a checkpoint's config.json and command lines (cli/arguments.py) are all read with `run_parser`, which knows
every key of a run with a given backbone and objective.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal

from jsonargparse import ArgumentParser, Namespace

from decision_rnn.agent import CONDITIONS, OBJECTIVES, AgentConfig
from decision_rnn.backbones import match_parameters, registered, registered_names
from decision_rnn.config import (
    DEFAULT_BACKBONE,
    DEFAULT_CONDITION,
    DEFAULT_OBJECTIVE,
    RENAMED,
    EvaluationConfig,
    ObservationConfig,
    RunConfig,
    TrainingConfig,
)
from decision_rnn.data.catalog import PARTIAL_HELP
from decision_rnn.errors import InputError, did_you_mean
from decision_rnn.parsing import check_numbers, parse_count, parse_keys
from decision_rnn.plugins import PLUGINS_HELP, check_plugins, plugins_of

ACTIONS_HELP = "keep the data's actions, which must lie within [-1, 1], or clip them as an environment of that box does"
BEST_HELP = "share of the episodes, the best by return, that are trained on; 0.1 with --condition none is 10% BC"
WIDTH, MATCH = "backbone.width", "backbone.match_parameters"
SECTIONS = {
    "observation": ObservationConfig,
    "agent": AgentConfig,
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
}


def from_dict(data: Mapping[str, Any], source: str) -> RunConfig:
    """The run configuration that `to_dict` of this version or 0.2 wrote; an InputError names `source` and the key."""
    return new_config(translated(data), source)


def translated(data: Mapping[str, Any]) -> dict[str, Any]:
    """A saved configuration with the keys and values of version 0.2 in their present form."""
    result: dict[str, Any] = {key: dict(value) if isinstance(value, Mapping) else value for key, value in data.items()}
    agent = result.get("agent")
    if isinstance(agent, dict) and not agent.pop("return_conditioning", True):
        result["condition"] = {"name": "none"}
    for old, new in RENAMED.items():
        value = _taken(result, old)
        if value is not None and new != "condition" and not (new.startswith("condition.") and "condition" in data):
            _put(result, new, value)
    evaluation = result.get("evaluation")
    if isinstance(evaluation, dict) and evaluation.get("state") == "carry":
        evaluation["state"] = "recurrent"
    if isinstance(result.get("condition"), dict) and result["condition"].get("name") == "none":
        result["condition"] = {"name": "none"}
    return result


def refuse_renamed(data: Mapping[str, Any], source: str) -> None:
    """InputError for a key of version 0.2; the message names the present one."""
    for old, new in RENAMED.items():
        name, _, key = old.partition(".")
        if name in data and (not key or (isinstance(data[name], Mapping) and key in data[name])):
            hint = "condition, `none` for behaviour cloning" if new == "condition" else new
            raise InputError(f"{source}: {old} has been renamed: use {hint}")


def _taken(data: dict[str, Any], key: str) -> Any:
    """Remove `section.key` or `key` from a dictionary and return its value, None if it is not there."""
    name, _, inner = key.partition(".")
    if not inner:
        return data.pop(name, None)
    return data[name].pop(inner, None) if isinstance(data.get(name), dict) else None


def _put(data: dict[str, Any], key: str, value: Any) -> None:
    name, _, inner = key.partition(".")
    if inner:
        data.setdefault(name, {})[inner] = value
    else:
        data[name] = value


def new_config(data: Mapping[str, Any], source: str) -> RunConfig:
    """The run configuration from keys and values, with current defaults for the rest; InputError as in `from_dict`."""
    check_plugins(plugins_of(data, source), source)
    refuse_renamed(data, source)
    parser = run_parser("decision-rnn", backbone_of(data), objective_of(data), condition_of(data))
    namespace = apply(parser, data, source)
    try:
        return instantiate(parser, namespace)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def backbone_of(data: Mapping[str, Any]) -> str:
    """The name of the backbone in a configuration dictionary: `backbone: lru` or the section's `name` key."""
    name = _name_of(data.get("backbone"), DEFAULT_BACKBONE)
    module, dot, _ = name.rpartition(".")
    if dot:
        check_plugins([module], f"the backbone {name}")
    _check_registered(name, registered, registered_names())
    return name


def objective_of(data: Mapping[str, Any]) -> str:
    """The name of the objective in a configuration dictionary: `objective: mse` or the section's `name` key."""
    name = _name_of(data.get("objective"), DEFAULT_OBJECTIVE)
    _check_registered(name, OBJECTIVES.registered, OBJECTIVES.names())
    return name


def condition_of(data: Mapping[str, Any]) -> str:
    """The name of the condition in a configuration dictionary: `condition: none` or the section's `name` key."""
    name = _name_of(data.get("condition"), DEFAULT_CONDITION)
    _check_registered(name, CONDITIONS.registered, CONDITIONS.names())
    return name


def _name_of(section: Any, default: str) -> str:
    name = section.get("name", default) if isinstance(section, Mapping) else default if section is None else section
    return str(name)[:100]


def _check_registered(name: str, find: Callable[[str], object], known: Sequence[str]) -> None:
    try:
        find(name)
    except KeyError as error:
        hint = did_you_mean(name, known) or "a backbone of your own needs --plugins with its module"
        raise InputError(f"{error.args[0]}; {hint}") from None


def run_parser(program: str, backbone: str, objective: str, condition: str) -> ArgumentParser:
    """A parser for every key of a run with that backbone, objective and condition."""
    parser = ArgumentParser(
        prog=program,
        usage=f"{program} [dataset] [--config FILE] [--KEY VALUE ...]",
        epilog=f"`{program} --backbone NAME --help` shows the options of another backbone than {backbone}.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_argument("dataset", nargs="?", type=str | None, help="the dataset's name, such as hopper-medium")
    parser.add_argument("--path", type=str | None, help="the HDF5 file of a D4RL dataset")
    parser.add_argument("--partial", type=Literal["keep", "drop"], default="keep", help=PARTIAL_HELP)
    parser.add_argument("--actions", type=Literal["keep", "clip"], default="keep", help=ACTIONS_HELP)
    parser.add_argument("--top_fraction", type=float, default=1.0, help=BEST_HELP)
    parser.add_argument("--plugins", type=tuple[str, ...], default=(), metavar="A,B", help=PLUGINS_HELP)
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights, sampled slices and dropout")
    parser.add_class_arguments(registered(backbone).config, "backbone")
    parser.add_argument(
        f"--{MATCH}",
        type=int | str | None,
        metavar="NUMBER",
        help="instead of a width: find the one that gives the backbone about this many parameters, such as 600k",
    )
    parser.add_class_arguments(OBJECTIVES.registered(objective).config, "objective")
    parser.add_class_arguments(CONDITIONS.registered(condition).config, "condition")
    for name, section in SECTIONS.items():
        parser.add_class_arguments(section, name)
    for action in parser._actions:
        if action.dest == "backbone":
            action.metavar, action.help = "NAME", f"which one: {', '.join(registered_names())}"
        elif action.dest == "objective":
            action.metavar, action.help = "NAME", f"which one: {', '.join(OBJECTIVES.names())}"
        elif action.dest == "condition":
            action.metavar, action.help = "NAME", f"which one: {', '.join(CONDITIONS.names())}"
        elif action.dest in (
            *SECTIONS,
            "backbone.name",
            "objective.name",
            "condition.name",
        ):  # `--backbone NAME` is shorter
            action.help = argparse.SUPPRESS
    return parser


def apply(parser: ArgumentParser, data: Mapping[str, Any], source: str) -> Namespace:
    """The parser's defaults with a configuration dictionary on top."""
    backbone = {**section(data.get("backbone")), "name": backbone_of(data)}
    if "width" in backbone and backbone.get("match_parameters") is not None:
        raise two_widths(source)
    check_backbone_keys(backbone["name"], [f"backbone.{key}" for key in backbone], source)
    objective = {**section(data.get("objective")), "name": objective_of(data)}
    condition = {**section(data.get("condition")), "name": condition_of(data)}
    keys = {**data, "backbone": backbone, "objective": objective, "condition": condition}
    return parse_keys(parser, keys, source)


def check_backbone_keys(backbone: str, keys: Sequence[str], source: str) -> None:
    """InputError for a key that only other backbones have; the message names them."""

    def has(name: str, key: str) -> bool:
        return key == MATCH or key in {f"backbone.{f.name}" for f in fields(registered(name).config)}

    for key in keys:
        owners = [name for name in registered_names() if has(name, key)]
        if owners and not has(backbone, key):
            raise InputError(
                f"{source}: the backbone {backbone} has no {key}, which {', '.join(owners)} "
                f"{'has' if len(owners) == 1 else 'have'}: leave out the key or the backbone"
            )


def two_widths(source: str) -> InputError:
    """The error for giving both a width and a number of parameters."""
    return InputError(
        f"{source}: {MATCH} finds the width, so {WIDTH} cannot be given beside it: leave one of the two out"
    )


def instantiate(parser: ArgumentParser, namespace: Namespace) -> RunConfig:
    """The run configuration from parsed values; an InputError names the key of an invalid one."""
    if namespace.dataset is None:
        raise InputError(f"no dataset was named: give one, such as `{parser.prog} hopper-medium`")
    check_numbers(namespace, endless=("training.gradient_clip",))  # infinity means no clipping
    asked = namespace.pop(MATCH)
    try:
        if asked is not None:
            options = {key: value for key, value in vars(namespace.backbone).items() if key != "width"}
            matched = match_parameters(registered(namespace.backbone.name).config, parse_count(asked, MATCH), **options)
            namespace.backbone.width = matched.width
        values = parser.instantiate(namespace)
    except ValueError as error:  # raised by a backbone's configuration
        raise InputError(str(error)) from None
    return RunConfig(**{f.name: values[f.name] for f in fields(RunConfig)})


def section(value: Any) -> dict[str, Any]:
    """A section of a configuration as a dictionary, empty if absent or, like `backbone: lru`, without keys."""
    return dict(value) if isinstance(value, Mapping) else {}
