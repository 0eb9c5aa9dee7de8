"""The variants of a comparison, each with a label and a configuration.

They are made from the keys of a run, shared by all variants, and those that each of them has of its own:

    datasets: [hopper-medium, walker2d-medium]
    variants:
      mingru: {backbone: mingru}
      long: {backbone: {name: mingru, layers: 6}, training: {context: 60}}
      windowed: {backbone: transformer, evaluation: {inference: window, window: 20}}

Of `evaluation` a variant may set how it acts, with a recurrent state or a window, greedily or by samples, which is part
of the method. Episodes and target returns are the same for all variants, so that scores can be compared.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from decision_rnn.backbones import registered
from decision_rnn.config import MATCH, EvaluationConfig, RunConfig, complete, from_dict, overlay
from decision_rnn.utils.errors import InputError, did_you_mean

LABEL = re.compile(r"\w[\w.,+=%-]*")
CONTROLS = ("bc", "bc-10%", "bc-mlp", "mlp")
"""The default controls: behaviour cloning, that of the best tenth of the episodes, that by an MLP, and an MLP."""
KNOWN_CONTROLS = (*CONTROLS, "conv")
TOP_FRACTION = 0.1
NAMES = {
    "bc": "BC",
    "bc-10%": "10% BC",
    "bc-mlp": "BC, MLP",
    "mlp": "MLP",
    "mlp-history": "MLP, 4-step history",
    "conv": "Convolution",
    "decision-transformer": "Decision Transformer",
    "transformer": "Transformer",
    "mingru": "minGRU",
    "minlstm": "minLSTM",
    "mlstm": "mLSTM",
    "slstm": "sLSTM",
    "mamba": "Mamba",
    "aaren": "Aaren",
    "retention": "Retention",
    **{name: name.upper() for name in ("gru", "lstm", "rnn", "lru", "s4d", "h3", "hgrn", "scrn", "rwkv")},
}
"""Names in tables, by label."""
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
        label: Its name in configurations and folders: letters, digits and `_.,+=%-`.
        config: Configuration of its runs, in which a comparison replaces the dataset and the seed.
        control: Whether it is a control, such as `bc`.
        name: Its name in tables; that of `NAMES`, or the label, if empty.

    Raises:
        InputError: If the label cannot name a folder.
    """

    label: str
    config: RunConfig
    control: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or NAMES.get(self.label, self.label))
        if not LABEL.fullmatch(self.label):
            raise InputError(
                f"the label {self.label!r} cannot name a folder: use letters, digits and _ . , + = % -, beginning with "
                "a letter, a digit or _"
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
                f"{source}: the variant {label} sets {key}, which all variants share: put it outside `variants`"
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
        if name not in KNOWN_CONTROLS:
            hint, known = did_you_mean(name, KNOWN_CONTROLS), ", ".join(KNOWN_CONTROLS)
            raise InputError(f"{source}: unknown control {name!r:.100}. {hint}Known are {known}, or none.")
        config = from_dict(_control_keys(name, first), f"{source}, control {name}")
        if name not in keys_of and config not in [variant.config for variant in variants]:
            variants.append(Variant(name, config, control=True))
    return tuple(variants)


def _control_keys(name: str, first: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the first variant, without condition, with the backbone of the control, or both."""
    keys = complete(first)  # with what is its default because of its condition
    backbone = name.removeprefix("bc-")
    if backbone in ("mlp", "conv"):
        options = {f"backbone.{field.name}" for field in fields(registered(backbone).config)} | {MATCH}
        options -= {"backbone.convolution"}  # it would give the control a memory
        keys = {key: value for key, value in keys.items() if not key.startswith("backbone.") or key in options}
        keys["backbone.name"] = backbone
    if name.startswith("bc"):
        keys = {key: value for key, value in keys.items() if not key.startswith("condition.")}
        keys["condition.name"] = "none"
    if name == "bc-10%":
        keys["top_fraction"] = TOP_FRACTION
    return keys
