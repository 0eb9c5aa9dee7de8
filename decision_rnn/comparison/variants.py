"""The variants of a comparison, each with a label and a configuration.

They are made from the keys and values of a YAML file or a Python call: keys of a run, shared by all variants, options
of the comparison, and

    datasets: [hopper-medium, walker2d-medium]
    variants:
      mingru: {backbone: mingru}
      long: {backbone: {name: mingru, layers: 6}, training: {context: 60}}
      windowed: {backbone: transformer, evaluation: {state: window, window: 20}}

A variant's own keys override the shared ones. Of `evaluation` a variant may set how it acts, by a carried state or a
window; episodes and target returns are the same for all variants.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

from decision_rnn.agent import NoConditionConfig
from decision_rnn.backbones import registered
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.config_parser import run_options, suggest
from decision_rnn.errors import InputError, did_you_mean
from decision_rnn.parsing import split_names

DEFAULT_BACKBONES = "mingru,minlstm,lru,transformer"
OPTIONS = ("backbones", "controls", "seeds", "checkpoint_episodes", "jobs", "executor", "ray_address", "output")
"""Options of a comparison that a file may contain too."""
RUN_KEYS = tuple(f.name for f in fields(RunConfig))
MATCH = "match_parameters"
Configure = Callable[[Mapping[str, Any], str, Collection[str] | None], RunConfig]
"""Makes a run's configuration from keys and values, their source (for messages), and the names of the backbone options
that may be applied on top of them, None for all."""

LABEL = re.compile(r"\w[\w.,+=%-]*")
CONTROLS = ("bc", "bc-10%", "mlp", "conv")
"""The available controls: behaviour cloning of all episodes or of the best tenth, and two backbones with little or no
memory."""
TOP_FRACTION = 0.1
"""Share of the episodes that filtered cloning is trained on."""
SHARED_EVALUATION = tuple(f"evaluation.{f.name}" for f in fields(EvaluationConfig) if f.name not in ("state", "window"))
"""Keys of an evaluation that all variants share, because their scores would not be comparable otherwise. How a variant
acts, by a carried state or a window, is part of the method and may differ."""
SHARED = ("dataset", "path", "partial", "actions", "plugins", "seed", *SHARED_EVALUATION)
"""Keys of a run that all variants share."""


@dataclass(frozen=True)
class Variant:
    """One of the configurations that are compared.

    Attributes:
        label: Its name in tables and folders: letters, digits and `_.,+=%-`.
        config: Configuration of its runs, in which a comparison replaces the dataset and the seed.
        control: Whether it is a control, such as cloning.

    Raises:
        InputError: If the label cannot name a folder.
    """

    label: str
    config: RunConfig
    control: bool = False

    def __post_init__(self) -> None:
        if not LABEL.fullmatch(self.label):
            raise InputError(
                f"the label {self.label!r} cannot name a folder: use letters, digits and _ . , + = % -, "
                "the first of them a letter, a digit or _"
            )


def cloning_controls(config: RunConfig) -> dict[str, Variant]:
    """Plain and filtered behaviour cloning with the agent of a configuration, without return conditioning."""
    cloning = replace(config, condition=NoConditionConfig())
    filtered = replace(cloning, top_fraction=TOP_FRACTION)
    return {name: Variant(name, cloned, control=True) for name, cloned in (("bc", cloning), ("bc-10%", filtered))}


def make_variants(
    shared: Mapping[str, Any],
    own: Mapping[str, Mapping[str, Any]],
    backbones: Sequence[str],
    source: str,
    option: str,
    configure: Configure,
) -> list[Variant]:
    """Make a variant for each label and for each backbone.

    Args:
        shared: Keys of a run that all variants share.
        own: The keys that each label sets on top of them.
        backbones: Names of backbones; each becomes a variant with that label.
        source: Where the keys come from, for messages.
        option: Where the backbones' names come from, for messages.
        configure: Makes a run's configuration from keys and values.

    Raises:
        InputError: Naming the key or the label that cannot be used.
    """
    if not backbones and not own:
        raise InputError(f"{option} names none: give some, such as mingru,lru")
    for name in backbones:
        if list(backbones).count(name) > 1:
            raise InputError(f"{option} names {name} twice")
        if name in own:
            raise InputError(f"{source}: {name} is a variant and one of --backbones: give the variant another label")
    labelled = [(label, keys, f"{source}, variant {label}") for label, keys in own.items()]
    labelled += [(name, {"backbone": name}, source) for name in backbones]
    return [Variant(label, configure(_overlaid(shared, keys), where, None)) for label, keys, where in labelled]


def add_controls(
    variants: Sequence[Variant], names: str, shared: Mapping[str, Any], source: str, configure: Configure
) -> list[Variant]:
    """Append the controls with these names, `a,b` or `none`, to the variants, unless they are among them already;
    arguments and errors as for `make_variants`."""
    variants = list(variants)

    def control(name: str) -> Variant:
        """A control that is a backbone, with those of the shared keys that this backbone has."""
        known = {f.name for f in fields(registered(name).config)} | {MATCH}
        known -= {"convolution"}  # it would give the control a memory
        kept = {key: value for key, value in _section(shared, "backbone").items() if key in known}
        config = configure({**shared, "backbone": {**kept, "name": name}}, source, known)
        return Variant(name, config, control=True)

    for name in _names_of_controls(names):
        if name not in [variant.label for variant in variants]:
            added = control(name) if name in ("mlp", "conv") else cloning_controls(variants[0].config)[name]
            if added.config not in [variant.config for variant in variants]:
                variants.append(added)
    return variants


def check_variants(variants: Sequence[Variant]) -> None:
    """Raise InputError unless these variants can be compared: unique labels, the same data, and the same evaluation
    episodes and target returns."""
    if not variants:
        raise InputError("nothing is compared: name at least one variant")
    first = variants[0]
    seen: set[str] = set()
    for variant in variants:
        if variant.label in seen:
            raise InputError(f"two variants are called {variant.label!r}: give each a label of its own")
        seen.add(variant.label)
        for key in ("dataset", "path", "partial", "actions", *SHARED_EVALUATION):
            one, other = attrgetter(key)(first.config), attrgetter(key)(variant.config)
            if one != other:
                raise InputError(
                    f"{variant.label} has {key} {other!r} where {first.label} has {one!r}: what is compared must be "
                    "alike in it"
                )


def part_keys(data: Mapping[str, Any], source: str) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """Split the keys of a file or a Python call into those that the variants share and those of each variant;
    InputError naming `source` and a key that cannot be used."""
    data = dict(data)
    _check_keys(data, [*RUN_KEYS, *OPTIONS, "datasets", "variants"], source, "")
    changes = data.pop("variants", {})
    if not isinstance(changes, Mapping) or not all(isinstance(own, Mapping) for own in changes.values()):
        raise InputError(f"{source}: variants must hold labels with keys and values, such as lru: {{backbone: lru}}")
    for label, own in changes.items():
        allowed = [key for key in RUN_KEYS if key not in SHARED]
        evaluation = own.get("evaluation")
        nested = evaluation if isinstance(evaluation, Mapping) else {}
        for key in (*own, *(f"evaluation.{name}" for name in nested)):
            if key in (*SHARED, *OPTIONS, "datasets"):
                raise InputError(f"{source}: the variant {label} has {key}, in which all are alike: put it outside")
        _check_keys(own, allowed, source, f" of the variant {label}")
    for key, target in (("datasets", "dataset"), ("backbones", "backbones"), ("controls", "controls")):
        if isinstance(data.get(key), list) and all(isinstance(name, str) for name in data[key]):
            data[key] = ",".join(data[key])
        if key in data and key != target:
            if target in data:
                raise InputError(f"{source}: {target} and {key} are both given: leave one of the two out")
            data[target] = data.pop(key)
    return data, {str(label): own for label, own in changes.items()}


def _check_keys(data: Mapping[Any, Any], known: Sequence[str], source: str, where: str) -> None:
    for key in data:
        if key not in known:
            hint = suggest(str(key), [*known, *run_options({})]) or f"known are {', '.join(known)}"
            raise InputError(f"{source}: unknown key {str(key)!r:.100}{where}; {hint.rstrip()}")


def _overlaid(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The shared keys, overridden by those of a variant section by section."""
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


def _names_of_controls(text: str) -> list[str]:
    names = [] if text.strip() == "none" else split_names(text)
    for name in names:
        if name not in CONTROLS:
            hint = did_you_mean(name, CONTROLS)
            raise InputError(f"controls names {name!r:.100}; {hint}known are {', '.join(CONTROLS)}, or none")
    return names
