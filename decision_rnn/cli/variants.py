"""The variants of a comparison from its command line and its YAML file.

A file holds a run's keys, shared by all variants, the options of `compare`, and

    datasets: [hopper-medium, walker2d-medium]
    variants:
      mingru: {backbone: mingru}
      long: {backbone: {name: mingru, layers: 6}, training: {context: 60}}
      windowed: {backbone: transformer, evaluation: {state: window, window: 20}}

What a variant says goes on top of what they share, and a key of the command line on top of both. Of `evaluation` a
variant may say how it acts, by a carried state or a window; the episodes and what is asked for are all variants'.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from decision_rnn.backbones import registered
from decision_rnn.cli.arguments import BACKBONE, parse_run, split_names, take
from decision_rnn.comparison.variants import CONTROLS, SHARED_EVALUATION, Variant, cloning_controls
from decision_rnn.config import RunConfig
from decision_rnn.errors import InputError, did_you_mean
from decision_rnn.parsing import COMMAND_LINE, options_of, read_yaml

DEFAULT_BACKBONES = "mingru,minlstm,lru,transformer"
OPTIONS = ("backbones", "controls", "seeds", "checkpoint_episodes", "jobs", "executor", "ray_address", "output")
"""Of the command, which a file may hold too."""
SHARED = ("dataset", "path", "partial", "actions", "plugins", "seed", *SHARED_EVALUATION)
"""Keys of a run in which all variants are alike."""
RUN_KEYS = tuple(f.name for f in fields(RunConfig))
MATCH = "match_parameters"


def parse_variants(
    program: str, arguments: Sequence[str], add_options: Callable[[ArgumentParser], None]
) -> tuple[list[Variant], list[str], Namespace]:
    """The variants that a command line asks for, controls last, the datasets' names, and the command's own options.

    Args:
        program: The command's name, for its help.
        arguments: What follows it.
        add_options: Adds the command's own options.

    Raises:
        InputError: Naming the file or key that cannot be used.
    """
    asked, _ = take(arguments, BACKBONE, "--config", "--backbones")
    if asked.backbone is not None:
        raise InputError("command line: compare takes --backbones, names with commas between them, and no --backbone")
    source = COMMAND_LINE if asked.config is None else asked.config
    base, changes = _read(Path(asked.config)) if asked.config is not None else ({}, {})
    text = base.get("backbones", "" if changes else DEFAULT_BACKBONES) if asked.backbones is None else asked.backbones
    names = split_names(str(text))
    if not names and (asked.backbones is not None or not changes):
        raise InputError("command line: --backbones names none: give some, such as --backbones mingru,lru")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"command line: --backbones names {name} twice")
        if name in changes:
            raise InputError(f"{source}: {name} is a variant and one of --backbones: give the variant another label")
    parsed = [
        (label, *parse_run(program, arguments, add_options, (_overlaid(base, own), f"{source}, variant {label}")))
        for label, own in changes.items()
    ]
    parsed += [
        (name, *parse_run(program, arguments, add_options, (_overlaid(base, {"backbone": name}), source)))
        for name in names
    ]
    variants, command = [Variant(label, config) for label, config, _ in parsed], parsed[0][2]

    def control(name: str) -> Variant:
        """The control of that name that is a backbone: with what all share, as far as that backbone has the keys."""
        own = {f.name for f in fields(registered(name).config)} | {MATCH}
        own -= {"convolution"}  # which would give it the memory that it is to be without
        shared = {key: value for key, value in _section(base, "backbone").items() if key in own}
        file = {**base, "backbone": {**shared, "name": name}}
        config, _ = parse_run(program, _without_backbone_keys(arguments, own), add_options, (file, source))
        return Variant(name, config, control=True)

    for name in _controls(command.controls):
        if name not in [variant.label for variant in variants]:
            added = control(name) if name in ("mlp", "conv") else cloning_controls(variants[0].config)[name]
            if added.config not in [variant.config for variant in variants]:
                variants.append(added)
    datasets = split_names(variants[0].config.dataset)
    if not datasets:
        raise InputError(f"no dataset was named: give one, such as `{program} hopper-medium`")
    return variants, datasets, command


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """What a file's variants share, and what each of them says."""
    data = read_yaml(path)
    _check_keys(data, [*RUN_KEYS, *OPTIONS, "datasets", "variants"], str(path), "")
    changes = data.pop("variants", {})
    if not isinstance(changes, Mapping) or not all(isinstance(own, Mapping) for own in changes.values()):
        raise InputError(f"{path}: variants must hold labels with keys and values, such as lru: {{backbone: lru}}")
    for label, own in changes.items():
        allowed = [key for key in RUN_KEYS if key not in SHARED]
        evaluation = own.get("evaluation")
        nested = evaluation if isinstance(evaluation, Mapping) else {}
        for key in (*own, *(f"evaluation.{name}" for name in nested)):
            if key in (*SHARED, *OPTIONS, "datasets"):
                raise InputError(f"{path}: the variant {label} has {key}, in which all are alike: put it outside")
        _check_keys(own, allowed, str(path), f" of the variant {label}")
    for key, target in (("datasets", "dataset"), ("backbones", "backbones"), ("controls", "controls")):
        if isinstance(data.get(key), list) and all(isinstance(name, str) for name in data[key]):
            data[key] = ",".join(data[key])
        if key in data and key != target:
            if target in data:
                raise InputError(f"{path}: {target} and {key} are both given: leave one of the two out")
            data[target] = data.pop(key)
    return data, {str(label): own for label, own in changes.items()}


def _check_keys(data: Mapping[Any, Any], known: Sequence[str], source: str, where: str) -> None:
    for key in data:
        if key not in known:
            hint = did_you_mean(str(key), known, 0.75) or f"known are {', '.join(known)}"
            raise InputError(f"{source}: unknown key {str(key)!r:.100}{where}; {hint.rstrip()}")


def _overlaid(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a variant on top of those that all share, section by section."""
    result = dict(base)
    for key, value in own.items():
        named = key in ("backbone", "objective")
        if named and isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, Mapping):
            result[key] = value
            continue
        shared = _section(base, key)
        if key == "backbone" and ("width" in value or MATCH in value):
            shared = {name: option for name, option in shared.items() if name not in ("width", MATCH)}
        result[key] = {**shared, **value}
    return result


def _section(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return {"name": value} if isinstance(value, str) else dict(value) if isinstance(value, Mapping) else {}


def _without_backbone_keys(arguments: Sequence[str], known: set[str]) -> list[str]:
    """A command line without the options of backbones but those known."""
    foreign = [f"--{key}" for key, _ in options_of(arguments) if key.startswith("backbone.") and key[9:] not in known]
    return take(arguments, *dict.fromkeys(foreign))[1]


def _controls(text: str) -> list[str]:
    names = [] if text.strip() == "none" else split_names(text)
    for name in names:
        if name not in CONTROLS:
            hint = did_you_mean(name, CONTROLS)
            raise InputError(f"controls names {name!r:.100}; {hint}known are {', '.join(CONTROLS)}, or none")
    return names
