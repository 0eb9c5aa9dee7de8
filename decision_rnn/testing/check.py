"""`check_mixer`: check any layer against the contract of sequence mixers."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from decision_rnn.backbones import BackboneConfig, SequenceMixer, registered, registered_names
from decision_rnn.testing.harness import TOLERANCES, MixerCase, add_noise
from decision_rnn.testing.properties import PROPERTIES, state_form
from decision_rnn.utils.errors import InputError, did_you_mean, one_line

METHODS = ("initial_state", "forward", "step", "recurrent_parameters", "parameters")
STATEMENTS = {check.__name__: (check.__doc__ or "").partition("\n")[0] for check in PROPERTIES}
"""What each property requires, in a sentence, by name."""


@dataclass(frozen=True)
class Report:
    """The properties of the contract that a mixer lacks; it has all others.

    Attributes:
        mixer: The mixer's name.
        failed: For each property that the mixer lacks, what differs, where and by how much.
        skipped: For each property that was not checked, the reason.
    """

    mixer: str
    failed: Mapping[str, str]
    skipped: Mapping[str, str]

    def __str__(self) -> str:
        verdict = f"fails {len(self.failed)} of {len(STATEMENTS)} properties" if self.failed else "keeps the contract"
        passed = len(STATEMENTS) - len(self.failed) - len(self.skipped)
        lines = [f"{self.mixer} {verdict}: {passed} passed, {len(self.skipped)} skipped", ""]
        for name, statement in STATEMENTS.items():
            outcome = "failed" if name in self.failed else "skipped" if name in self.skipped else "passed"
            lines.append(f"{outcome:7}  {name}: {statement}")
            lines += [f"{'':11}{self.failed.get(name) or self.skipped[name]}"] if outcome != "passed" else []
        return "\n".join(lines)


def check_mixer(
    mixer: type[SequenceMixer] | SequenceMixer | Callable[[], SequenceMixer],
    config: BackboneConfig | None = None,
    *,
    width: int | None = None,
    tolerances: Mapping[torch.dtype, float] = TOLERANCES,
    skip: Mapping[str, str] | None = None,
    raise_error: bool = True,
) -> Report:
    """Check a sequence mixer against the contract of `SequenceMixer`, property by property.

    A mixer that keeps the contract computes the same outputs, final states and gradients in `forward`, in `step` and in
    any chunks with the state carried, with episodes beginning anywhere. It does not depend on the future, on other rows
    or on steps before a reset, keeps nothing between calls, and does so in bfloat16 and over 10,000 steps. The
    reference is the mixer's own `step` in the widest dtype; whether that is the paper's layer is not checked. Dropout
    inside the mixer must be off.

    Args:
        mixer: A class, registered or not, called as `mixer(config)`; an instance, which is checked as it is and not
            changed; or a function without arguments that returns one. Parameters of newly created mixers are perturbed,
            so that a zero bias cannot hide an error.
        config: The configuration of a class; if left out, the defaults of the configuration that it, or a class it
            inherits from, was registered with, or else a `BackboneConfig`.
        width: Channels of input and output: of an instance or function; of a class without `config`, 8 by default.
        tolerances: For each dtype, the widest first, the largest allowed difference, relative to the largest value of a
            tensor. A layer that magnifies rounding errors is allowed what errors of 32 units in the last place, in
            weights and inputs, make in the widest dtype. Check a layer that always computes in float32 with
            `{torch.float32: 1e-5}`.
        skip: Properties to skip, by name, with the reason.
        raise_error: Whether to raise an error if a property fails.

    Returns:
        The result of every property; `str(report)` describes it.

    Raises:
        AssertionError: If a property fails; the message is the report.
        InputError: If `mixer` is not a mixer or cannot be created.

    Example:
        >>> from decision_rnn.backbones.mingru import MinGRU
        >>> check_mixer(MinGRU).failed
        {}
    """
    skipped = dict(skip or {})
    for name in skipped.keys() - STATEMENTS.keys():
        hint = did_you_mean(name, STATEMENTS)
        raise InputError(f"skip: unknown property {name!r:.100}; {hint}known are {', '.join(STATEMENTS)}")
    if isinstance(mixer, nn.Module):
        skipped.setdefault("state_dict_is_complete", "an instance was given, and no second one can be made")
    title, case = _case(mixer, config, width, tolerances)
    failed: dict[str, str] = {}
    for check in PROPERTIES:
        if check.__name__ not in skipped:
            try:
                check(case)
            except Exception as error:  # the mixer may raise anything
                raised = "" if isinstance(error, AssertionError) else f"raises {type(error).__name__}: "
                failed[check.__name__] = raised + one_line(error, 500)
        if state_form.__name__ in failed:
            skipped = dict.fromkeys(STATEMENTS.keys() - failed.keys(), "state_form fails") | skipped
    report = Report(title, failed, skipped)
    if raise_error and failed:
        raise AssertionError(str(report))
    return report


def _case(
    mixer: Any, config: BackboneConfig | None, width: int | None, tolerances: Mapping[torch.dtype, float]
) -> tuple[str, MixerCase]:
    """The name of the mixer, and how to check it; InputError if it is not a mixer."""
    name = getattr(mixer, "__name__", type(mixer).__name__)
    if isinstance(mixer, type):
        _require_methods(mixer, name)
        width = config.width if config else width or 8
        make = lambda: add_noise(mixer(config or _default_config(mixer, width)))  # noqa: E731
    elif width is None:
        raise InputError("width is missing: an instance or a function does not say how many channels its input has")
    else:
        make = partial(copy.deepcopy, mixer) if isinstance(mixer, nn.Module) else lambda: add_noise(mixer())
    try:
        module = make()
    except Exception as error:  # a constructor may raise anything
        reason = one_line(error)
        raise InputError(f"{name} cannot be made ({reason}): give a configuration or width that it takes") from error
    _require_methods(module, name)
    remembers = bool(module.initial_state(1))
    return name, MixerCase(make=make, width=width, tolerances=tolerances, remembers=remembers)


def _require_methods(mixer: Any, name: str) -> None:
    missing = [method for method in METHODS if not callable(getattr(mixer, method, None))]
    if missing:
        raise InputError(f"{name} has no {', '.join(missing)}: wrap it in a SequenceMixer, which has them")


def _default_config(mixer: type, width: int) -> BackboneConfig:
    """Of the class that it, or a base class, was registered with, or else a `BackboneConfig`."""
    configs = {entry.cls: entry.config for entry in map(registered, registered_names())}
    of_class: Any = next((configs[base] for base in mixer.__mro__ if base in configs), None)
    return of_class(width=width) if of_class else BackboneConfig(name=mixer.__name__.lower(), width=width)
