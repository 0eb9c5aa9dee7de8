"""The variants of a comparison, each with a label and a configuration.

They are made from the keys of a run, shared by all variants, and those that each of them has of its own:

    variants:
      long: {backbone: {name: mingru, layers: 6}, training: {context: 60}}
      windowed: {backbone: transformer, evaluation: {inference: window, window: 20}}

How a variant acts is part of the method. Episodes and target returns are shared, so that scores can be compared.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from decision_rnn.config import EvaluationConfig, RunConfig, complete, from_dict, overlay
from decision_rnn.training.train import with_architecture
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import read_yaml

Label = Annotated[str, Field(pattern=r"^\w[\w.,+=%-]*$")]
"""A name that can be a folder's."""
CONTROLS = ("bc", "bc-10%", "bc-mlp", "mlp")
"""The default controls: behaviour cloning (BC), 10% BC (top 10% of episodes by return), BC by an MLP, and an MLP."""
Controls = Annotated[
    tuple[Literal["bc", "bc-10%", "bc-mlp", "mlp", "conv"], ...],
    BeforeValidator(lambda names: () if names == ("none",) else names),
]
NAMES = read_yaml(Path(__file__).with_name("names.yaml"))
"""Names in tables, by label."""
SHARED = {f"evaluation.{field.name}" for field in fields(EvaluationConfig)}
SHARED -= {"evaluation.inference", "evaluation.window", "evaluation.actions"}
SHARED |= {"dataset", "path", "partial", "validation", "plugins", "seed"}
"""Keys of a run that a variant cannot set for itself."""


@dataclass(frozen=True)
class Variant:
    """One of the configurations that are compared: its label in configurations and folders, its name in tables, and the
    configuration of its runs, in which a comparison replaces the dataset and the seed."""

    label: str
    name: str
    config: RunConfig
    control: bool = False


def make_variants(
    shared: Mapping[str, Any],
    own: Mapping[str, Mapping[str, Any]],
    backbones: Iterable[str],
    controls: Iterable[str],
    source: str,
) -> tuple[Variant, ...]:
    """Make a variant for each label, with the shared keys of a run and `own` in their place, and for each backbone,
    followed by the controls, with the settings of the first variant; none of them twice. Raises InputError, naming
    `source`, for keys that cannot be used."""
    all_own = dict(own) | {name: {"backbone.name": name} for name in backbones if name not in own}
    keys_of = {label: with_architecture(overlay(shared, keys)) for label, keys in all_own.items()}
    variants = []
    for label, keys in keys_of.items():
        for key in SHARED.intersection(own.get(label, ())):
            raise InputError(
                f"{source}: variant {label} sets {key}, which all variants share. Put it beside `variants`."
            )
        name = str(keys.pop("name", NAMES.get(label, label)))
        variants.append(Variant(label, name, from_dict(keys, f"{source}, variant {label}")))
    first = next(iter(keys_of.values()), shared)
    for label in controls:
        config = from_dict(_control_keys(label, first), f"{source}, control {label}")
        if label not in keys_of and config not in [variant.config for variant in variants]:
            variants.append(Variant(label, NAMES[label], config, control=True))
    return tuple(variants)


def _control_keys(name: str, first: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the first variant, without condition, with the backbone of the control, or both."""
    keys = complete(first)  # with what is its default because of its condition
    keys.pop("init_from", None)  # whose weights do not fit
    changes: dict[str, Any] = {"condition.name": "none"} if name.startswith("bc") else {}
    if (backbone := name.removeprefix("bc-")) in ("mlp", "conv"):
        keys.pop("backbone.convolution", None)  # it would give the control a memory
        changes["backbone.name"] = backbone
    if name == "bc-10%":
        changes["top_fraction"] = 0.1
    return overlay(keys, changes)
