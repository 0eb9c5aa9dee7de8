"""The variants of a comparison, each with a label and a configuration.

They are made from the keys of a run, shared by all variants, and those that each of them has of its own:

    datasets: [hopper-medium, walker2d-medium]
    variants:
      mingru: {backbone: mingru}
      long: {backbone: {name: mingru, layers: 6}, training: {context: 60}}
      windowed: {backbone: transformer, evaluation: {inference: window, window: 20}}

Of `evaluation` a variant may set how it acts, with a recurrent state or a window, greedily or by samples, which is part
of the method; episodes and target returns are the same for all variants, because their scores would not be comparable
otherwise.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from decision_rnn.backbones import registered
from decision_rnn.config import MATCH, EvaluationConfig, RunConfig, complete, from_dict, overlay
from decision_rnn.utils.errors import InputError, did_you_mean

LABEL = re.compile(r"\w[\w.,+=%-]*")
CONTROLS = ("bc", "bc-10%", "mlp", "conv")
"""The available controls: behaviour cloning of all episodes or of the best tenth, and two backbones with little or no
memory."""
OLD_CONTROLS = {"cloning": "bc", "filtered-cloning": "bc-10%"}
TOP_FRACTION = 0.1
SHARED = {"dataset", "path", "partial", "validation", "plugins", "seed"} | {
    f"evaluation.{field.name}"
    for field in fields(EvaluationConfig)
    if field.name not in ("inference", "window", "actions")
}
"""Keys of a run that a variant cannot set for itself."""


@dataclass(frozen=True)
class Variant:
    """One of the configurations that are compared.

    Attributes:
        label: Its name in tables and folders: letters, digits and `_.,+=%-`.
        config: Configuration of its runs, in which a comparison replaces the dataset and the seed.
        control: Whether it is a control, such as `bc`.

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


def make_variants(
    shared: Mapping[str, Any],
    own: Mapping[str, Mapping[str, Any]],
    backbones: Iterable[str],
    controls: Iterable[str],
    source: str,
) -> tuple[Variant, ...]:
    """Make a variant for each label, with the shared keys of a run and `own` in their place, and for each backbone,
    followed by the controls that are not among them already, with the settings of the first variant.

    Raises:
        InputError: Naming `source` and the key or the label that cannot be used.
    """
    for name in backbones:
        if name in own:
            raise InputError(f"{source}: {name} is a variant and one of --backbones: give the variant another label")
    for label, keys in own.items():
        for key in SHARED.intersection(keys):
            raise InputError(
                f"{source}: the variant {label} has {key}, in which all are alike: put it outside of `variants`"
            )
    keys_of = {label: overlay(shared, keys) for label, keys in own.items()}
    keys_of |= {name: overlay(shared, {"backbone.name": name}) for name in backbones}
    if not keys_of:
        raise InputError(f"{source}: there is nothing to compare: name backbones, such as --backbones mingru,lru")
    variants = [
        Variant(label, from_dict(keys, f"{source}, variant {label}" if label in own else source))
        for label, keys in keys_of.items()
    ]
    first = next(iter(keys_of.values()))
    for name in controls:
        if name not in CONTROLS:
            hint = f"use {OLD_CONTROLS[name]}; " if name in OLD_CONTROLS else did_you_mean(name, CONTROLS)
            raise InputError(f"{source}: controls names {name!r:.100}; {hint}known are {', '.join(CONTROLS)}, or none")
        config = from_dict(_control_keys(name, first), f"{source}, control {name}")
        if name not in keys_of and config not in [variant.config for variant in variants]:
            variants.append(Variant(name, config, control=True))
    return tuple(variants)


def _control_keys(name: str, first: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the first variant, without condition or with the backbone of that name."""
    if name.startswith("bc"):
        keys = {key: value for key, value in complete(first).items() if not key.startswith("condition.")}
        return keys | {"condition.name": "none"} | ({"top_fraction": TOP_FRACTION} if name == "bc-10%" else {})
    known = {f"backbone.{field.name}" for field in fields(registered(name).config)} | {MATCH}
    known -= {"backbone.convolution"}  # it would give the control a memory
    keys = {key: value for key, value in first.items() if not key.startswith("backbone.") or key in known}
    return keys | {"backbone.name": name}
