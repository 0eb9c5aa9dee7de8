"""What is compared: variants, each a label and a configuration.

They come from keys and values, a YAML file's or a call's in Python: a run's keys, shared by all variants, options of
the comparison, and

    datasets: [hopper-medium, walker2d-medium]
    variants:
      mingru: {backbone: mingru}
      long: {backbone: {name: mingru, layers: 6}, training: {context: 60}}
      windowed: {backbone: transformer, evaluation: {state: window, window: 20}}

What a variant says goes on top of what they share. Of `evaluation` a variant may say how it acts, by a carried state or
a window; the episodes and what is asked for are all variants'.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

from decision_rnn.backbones import registered
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.errors import InputError, did_you_mean
from decision_rnn.parsing import split_names

DEFAULT_BACKBONES = "mingru,minlstm,lru,transformer"
OPTIONS = ("backbones", "controls", "seeds", "checkpoint_episodes", "jobs", "executor", "ray_address", "output")
"""Of a comparison, which a file may hold too."""
RUN_KEYS = tuple(f.name for f in fields(RunConfig))
MATCH = "match_parameters"
Configure = Callable[[Mapping[str, Any], str, Collection[str] | None], RunConfig]
"""From keys and values and where they come from to a run; of options that go on top of them, and are the backbone's,
those alone that are named, all if None."""

LABEL = re.compile(r"\w[\w.,+=-]*")
CONTROLS = ("cloning", "filtered-cloning", "mlp", "conv")
"""What may stand beside the variants: cloning of all episodes, of the best ones, and two backbones that remember
nothing or little."""
BEST_FRACTION = 0.1
"""Of the episodes, which filtered cloning clones."""
SHARED_EVALUATION = tuple(f"evaluation.{f.name}" for f in fields(EvaluationConfig) if f.name not in ("state", "window"))
"""Keys of an evaluation in which all variants are alike, or their scores would not measure the same. How it acts, by a
carried state or a window, is a variant's own: that belongs to a method."""
SHARED = ("dataset", "path", "partial", "actions", "plugins", "seed", *SHARED_EVALUATION)
"""Keys of a run in which all variants are alike."""


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


def make_variants(
    shared: Mapping[str, Any],
    own: Mapping[str, Mapping[str, Any]],
    backbones: Sequence[str],
    source: str,
    option: str,
    configure: Configure,
) -> list[Variant]:
    """A variant for each label and for each backbone.

    Args:
        shared: Keys of a run that all have.
        own: What each label says on top of them.
        backbones: Names, each a variant that is called so.
        source: Where the keys come from, for messages.
        option: Where the backbones' names do.
        configure: Makes a run of keys and values.

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
    """The variants with the controls of these names behind them, `a,b` or `none`, but for those that are among them
    already; arguments and errors as for `make_variants`."""
    variants = list(variants)

    def control(name: str) -> Variant:
        """The control of that name that is a backbone: with what all share, as far as that backbone has the keys."""
        known = {f.name for f in fields(registered(name).config)} | {MATCH}
        known -= {"convolution"}  # which would give it the memory that it is to be without
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


def part_keys(data: Mapping[str, Any], source: str) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """What the variants of a file, or of a call in Python, share, and what each of them says; InputError naming
    `source` and the key that cannot be used."""
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


def _names_of_controls(text: str) -> list[str]:
    names = [] if text.strip() == "none" else split_names(text)
    for name in names:
        if name not in CONTROLS:
            hint = did_you_mean(name, CONTROLS)
            raise InputError(f"controls names {name!r:.100}; {hint}known are {', '.join(CONTROLS)}, or none")
    return names
