"""What is compared: variants, each a label and a configuration."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter

from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.errors import InputError

LABEL = re.compile(r"\w[\w.,+=-]*")
CONTROLS = ("cloning", "filtered-cloning", "mlp", "conv")
"""What may stand beside the variants: cloning of all episodes, of the best ones, and two backbones that remember
nothing or little."""
BEST_FRACTION = 0.1
"""Of the episodes, which filtered cloning clones."""
SHARED_EVALUATION = tuple(f"evaluation.{f.name}" for f in fields(EvaluationConfig) if f.name not in ("state", "window"))
"""Keys of an evaluation in which all variants are alike, or their scores would not measure the same. How it acts, by a
carried state or a window, is a variant's own: that belongs to a method."""


@dataclass(frozen=True)
class Variant:
    """One of the things compared.

    Attributes:
        label: Names it in tables, and its folders: letters, digits and `_.,+=-`.
        config: Of its runs; a comparison replaces the dataset and the seed.
        control: Whether it is there to be compared with, such as cloning.

    Raises:
        InputError: If the label cannot name a folder.
    """

    label: str
    config: RunConfig
    control: bool = False

    def __post_init__(self) -> None:
        if not LABEL.fullmatch(self.label):
            raise InputError(
                f"the label {self.label!r} cannot name a folder: use letters, digits and _ . , + = -, "
                "the first of them a letter, a digit or _"
            )


def cloning_controls(config: RunConfig) -> dict[str, Variant]:
    """Plain and filtered behaviour cloning by the agent of that configuration, which is then asked for nothing."""
    cloning = replace(config, agent=replace(config.agent, return_conditioning=False))
    filtered = replace(cloning, best_fraction=BEST_FRACTION)
    return {
        name: Variant(name, cloned, control=True)
        for name, cloned in (("cloning", cloning), ("filtered-cloning", filtered))
    }


def check_variants(variants: Sequence[Variant]) -> None:
    """InputError unless these can stand in one table: labels unique, the same data, the same episodes asked for the
    same returns."""
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
