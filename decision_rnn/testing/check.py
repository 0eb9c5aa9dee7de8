"""`check_mixer`: test any sequence mixer against the law."""

import copy
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import nn

from decision_rnn.backbones import BackboneConfig, SequenceMixer, registered, registered_names
from decision_rnn.errors import InputError, did_you_mean
from decision_rnn.testing.form import state_keeps_its_form, weights_are_all
from decision_rnn.testing.law import LAWS, SHRINK_SECONDS, broken
from decision_rnn.testing.report import Finding, LawBrokenError, Report
from decision_rnn.testing.subject import TIGHT, Subject

WIDTH = 8
"""Default number of channels of a mixer that is created from a configuration."""

Make = Callable[[], SequenceMixer]


def check_mixer(
    mixer: type[SequenceMixer] | SequenceMixer | Make,
    config: BackboneConfig | None = None,
    *,
    width: int | None = None,
    tolerances: Mapping[torch.dtype, float] = TIGHT,
    skip: Mapping[str, str] | None = None,
    shrink_seconds: float = SHRINK_SECONDS,
    raise_error: bool = True,
) -> Report:
    """Test a sequence mixer against the law of `SequenceMixer`, clause by clause.

    A mixer that obeys the law computes the same outputs, final states and gradients in `forward`, in `step` and in any
    chunks with the state carried, with episodes beginning anywhere. It does not depend on the future, on other rows or
    on steps before a reset, keeps nothing between calls, and satisfies this in bfloat16 and over 10,000 steps. The
    reference is the mixer's own `step` in the widest dtype; no clause can check whether that is the paper's layer.
    Dropout inside the mixer must be off.

    Args:
        mixer: A class, registered or not, called as `mixer(config)`; an instance, which is checked as it is and not
            changed; or a function without arguments that returns one. Parameters of newly created mixers are perturbed,
            so that a zero bias cannot hide an error.
        config: The configuration of a class; if left out, the defaults of the configuration that it, or a class it
            inherits from, was registered with, or else a `BackboneConfig`, with a width of 8.
        width: Channels of input and output; required for an instance or function.
        tolerances: For each dtype, the widest first, the largest allowed difference, relative to the largest value of a
            tensor. Check a layer that always computes in float32 with `{torch.float32: 1e-5}`.
        skip: Clauses to skip, by name, with the reason.
        shrink_seconds: How long to search for the smallest failing case of a broken clause.
        raise_error: Whether a broken clause raises an error or only appears in the report.

    Returns:
        The outcome of every clause; `str(report)` describes it.

    Raises:
        LawBrokenError: If a clause is broken: an AssertionError that names it and the smallest failing case.
        InputError: If `mixer` is not a mixer or cannot be created.

    Example:
        >>> from decision_rnn.backbones.mingru import MinGRU
        >>> check_mixer(MinGRU).obeys
        True
    """
    subject, name = _subject(mixer, config, width)
    subject.allowed = tolerances
    reasons = dict(skip or {})
    unknown = [clause for clause in reasons if clause not in {law.__name__ for law in LAWS}]
    if unknown:
        hint = did_you_mean(unknown[0], [law.__name__ for law in LAWS])
        raise InputError(f"skip: unknown clause {unknown[0]!r:.100}; {hint}known are those of the report")
    if isinstance(mixer, nn.Module):
        reasons.setdefault(weights_are_all.__name__, "an instance was given, and no second one can be made")
    findings: list[Finding] = []
    for law in LAWS:
        if law.__name__ in reasons:
            findings.append(Finding.of(law, "not tried", reason=reasons[law.__name__]))
            continue
        failure = broken(law, subject, shrink_seconds)
        findings.append(Finding.of(law, "passed" if failure is None else "broken", failure))
        if failure is not None and law is state_keeps_its_form:
            reasons = {other.__name__: f"{law.__name__} is broken" for other in LAWS} | reasons
    report = Report(name, tuple(findings))
    if raise_error and not report.obeys:
        raise LawBrokenError(report)
    return report


class _Given(Subject):
    """A mixer given by the user; the reference is what its own steps compute."""

    def __init__(self, make: Make, width: int, shaken: bool) -> None:
        self.fresh, self.width, self.shaken = make, width, shaken  # type: ignore[method-assign]
        self.allowed: Mapping[torch.dtype, float] = TIGHT
        self.remembers = bool(self.fresh().initial_state(1))

    @property
    def tolerances(self) -> Mapping[torch.dtype, float]:
        return self.allowed

    def shake(self, module: SequenceMixer) -> None:
        if self.shaken:
            super().shake(module)


def _subject(mixer: object, config: BackboneConfig | None, width: int | None) -> tuple[_Given, str]:
    """The mixer as a subject, and its name; InputError if it is not a mixer."""
    if not isinstance(mixer, type):
        if width is None:
            raise InputError("width is missing: an instance or a function does not say how many channels its input has")
        if isinstance(mixer, nn.Module):
            name = type(mixer).__name__
            return _made(lambda: copy.deepcopy(mixer), name, width, shaken=False), name
        if not callable(mixer):
            raise InputError(f"{mixer!r:.100} is no mixer: give a class, an instance or a function that makes one")
        name = getattr(mixer, "__name__", type(mixer).__name__)
        return _made(mixer, name, width), name
    _check_methods(mixer, mixer.__name__)
    if config is None:
        config = _config_of(mixer, width or WIDTH)
    elif width not in (None, config.width):
        raise InputError(f"width is {width} and config.width {config.width}: leave one out")
    return _made(lambda: mixer(config), mixer.__name__, config.width), mixer.__name__


def _config_of(mixer: type, width: int) -> BackboneConfig:
    """The default of the configuration that it, or a base class, was registered with, or else of `BackboneConfig`."""
    configs = {entry.cls: entry.config for entry in map(registered, registered_names())}
    of_class = next((configs[base] for base in mixer.__mro__ if base in configs), None)
    try:
        make: Callable[..., BackboneConfig] = of_class or partial(BackboneConfig, name=mixer.__name__.lower())
        return make(width=width)
    except (TypeError, ValueError) as error:
        raise InputError(f"{mixer.__name__}: {error}: give a configuration") from error


def _made(make: Callable[[], object], name: str, width: int, shaken: bool = True) -> _Given:
    try:
        module = make()
    except Exception as error:  # its constructor may raise anything
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(f"{name} cannot be made ({reason}): give a configuration or width that it takes") from error
    _check_methods(module, name)
    return _Given(make, width, shaken)  # type: ignore[arg-type]


def _check_methods(mixer: object, name: str) -> None:
    missing = [
        method
        for method in ("initial_state", "forward", "step", "recurrent_parameters", "parameters")
        if not callable(getattr(mixer, method, None))
    ]
    if missing:
        raise InputError(f"{name} has no {', '.join(missing)}: wrap it in a SequenceMixer, which has")
