"""What is compared: variants, each a label and a configuration."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from decision_rnn.config import RunConfig
from decision_rnn.errors import InputError

LABEL = re.compile(r"\w[\w.,+=-]*")


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


def check_variants(variants: Sequence[Variant]) -> None:
    """InputError unless these can stand in one table: labels unique, the same data, one way to evaluate."""
    if not variants:
        raise InputError("nothing is compared: name at least one variant")
    first = variants[0]
    seen: set[str] = set()
    for variant in variants:
        if variant.label in seen:
            raise InputError(f"two variants are called {variant.label!r}: give each a label of its own")
        seen.add(variant.label)
        for key in ("dataset", "path", "partial", "actions", "evaluation"):
            one, other = getattr(first.config, key), getattr(variant.config, key)
            if one != other:
                raise InputError(
                    f"{variant.label} has {key} {other!r} where {first.label} has {one!r}: what is compared must be "
                    "alike in it"
                )
