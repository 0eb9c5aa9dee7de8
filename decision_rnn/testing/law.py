"""The law of a sequence mixer, a table of its clauses, and the search for the smallest case that breaks one.

A clause is a function of a subject and of cases, which raises an error if the subject breaks it. The full cases have
three rows and twelve steps; the smallest failing case is found by calling the clause on smaller cases, the shortest
first.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from decision_rnn.testing.agreement import (
    absent_means_initial,
    all_modes_agree,
    gradients_agree,
    half_precision,
    one_step_is_step,
    ten_thousand_steps,
)
from decision_rnn.testing.cases import BATCH, LONG, TIME, Cases
from decision_rnn.testing.comparing import MismatchError
from decision_rnn.testing.form import (
    arguments_stay,
    nothing_is_kept_between_calls,
    state_keeps_its_form,
    step_is_real,
    training_changes_nothing,
    weights_are_all,
)
from decision_rnn.testing.isolation import (
    causal,
    infinities_stay_in_their_episode,
    nothing_crosses_a_reset,
    rows_are_independent,
)
from decision_rnn.testing.subject import Subject

Clause = Callable[[Subject, Cases], None]

LAWS: tuple[Clause, ...] = (
    state_keeps_its_form,
    all_modes_agree,
    gradients_agree,
    absent_means_initial,
    one_step_is_step,
    causal,
    nothing_crosses_a_reset,
    infinities_stay_in_their_episode,
    rows_are_independent,
    nothing_is_kept_between_calls,
    training_changes_nothing,
    step_is_real,
    ten_thousand_steps,
    half_precision,
    arguments_stay,
    weights_are_all,
)
"""All clauses. If the first is broken, the others, which compare states, are not tried."""

PARTED = (causal, nothing_crosses_a_reset, infinities_stay_in_their_episode)
"""Clauses that split time at a step, and so need at least one step on either side."""

SHRINK_SECONDS = 10.0
"""How long to search for the smallest failing case of a clause."""


@dataclass(frozen=True)
class Failure:
    """The smallest case found in which a clause does not hold.

    Attributes:
        what: What is wrong.
        batch: Number of rows of the case.
        time: Number of steps of the case.
        begin: The step, counted from 0, at which an episode begins in the last row or, for clauses that split time, at
            which time is split in all rows; None for none.
        expected: The expected value; None if no values were compared.
        found: The value found.
    """

    what: str
    batch: int
    time: int
    begin: int | None = None
    expected: float | bool | None = None
    found: float | bool | None = None

    def __str__(self) -> str:
        rows, steps = (f"{n:,} {word}{'' if n == 1 else 's'}" for n, word in ((self.batch, "row"), (self.time, "step")))
        begin = "" if self.begin is None else f", parted at step {self.begin} of 0 to {self.time - 1}"
        lines = [self.what, f"smallest failing case: {rows}, {steps}{begin}"]
        if self.found is not None:
            lines.append(f"expected {self.expected:.6g}, found {self.found:.6g}")
        return "\n".join(lines)


def broken(clause: Clause, subject: Subject, shrink_seconds: float = SHRINK_SECONDS) -> Failure | None:
    """The smallest case found in which the subject breaks the clause; None if the clause holds."""
    error = _error(clause, subject, Cases.full())
    if error is None:
        return None
    began = time.monotonic()
    for cases, begin in _smaller(clause):
        if time.monotonic() - began > shrink_seconds:
            break
        smaller = _error(clause, subject, cases)
        if type(smaller) is type(error) and smaller is not None:
            return _failure(smaller, cases.batch, cases.long if clause is ten_thousand_steps else cases.time, begin)
    return _failure(error, *((1, LONG) if clause is ten_thousand_steps else (BATCH, TIME)), None)


def _error(clause: Clause, subject: Subject, cases: Cases) -> Exception | None:
    try:
        clause(subject, cases)
    except Exception as error:  # the mixer may raise anything
        return error
    return None


def _failure(error: Exception, batch: int, steps: int, begin: int | None) -> Failure:
    if isinstance(error, MismatchError):
        return Failure(error.what, batch, steps, begin, error.expected, error.found)
    words = " ".join(str(error).split())[:300]
    return Failure(f"raises {type(error).__name__}: {words}", batch, steps, begin)


def _smaller(clause: Clause) -> Iterator[tuple[Cases, int | None]]:
    """Smaller cases, the smallest first, each with the step at which an episode begins or time is split."""
    if clause is ten_thousand_steps:
        for doubling in range(1, 14):
            yield replace(Cases.small(1, 2, None), long=2**doubling), None
        return
    for steps in range(2 if clause in PARTED else 1, TIME + 1):
        for batch in range(1, BATCH + 1):
            begins = list(range(1, steps)) if clause in PARTED else [None, *range(steps)]
            for begin in begins:
                yield Cases.small(batch, steps, begin), begin
