"""Comparisons for the clauses of the law, and the error that they raise."""

import torch
from torch import Tensor

from decision_rnn.backbones import State

Numbers = float | bool


class MismatchError(AssertionError):
    """A clause does not hold.

    Attributes:
        what: What was compared, or what is wrong.
        expected: The expected value at the place of the largest difference; None if no values were compared.
        found: The value found there.
    """

    def __init__(self, what: str, expected: Numbers | None = None, found: Numbers | None = None) -> None:
        super().__init__(what)
        self.what, self.expected, self.found = what, expected, found


def require(condition: bool | Tensor, what: str) -> None:
    """Raise MismatchError unless the condition holds: an assertion that `python -O` does not remove."""
    if not condition:
        raise MismatchError(what)


def distance(actual: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest expected value; NaN must be in the same places."""
    require(actual.shape == expected.shape, f"of shape {tuple(actual.shape)} where {tuple(expected.shape)} is right")
    require(torch.equal(actual.isnan(), expected.isnan()), "NaN in different places")
    if not actual.numel():
        return 0.0
    actual, expected = _plain(actual).nan_to_num(), _plain(expected).nan_to_num()
    return ((actual - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).item()


def assert_near(actual: Tensor, expected: Tensor, tolerance: float, what: str) -> None:
    """Raise MismatchError if a value differs by more than `tolerance` times the largest expected value."""
    try:
        found = distance(actual, expected)
    except MismatchError as mismatch:
        if actual.shape != expected.shape:
            raise MismatchError(f"{what}: {mismatch.what}") from None
        _complain(actual, expected, f"{what}: {mismatch.what}")
    if not found <= tolerance:
        difference = f"differs by {found:.1e} of the largest value, allowed {tolerance:.0e}"
        _complain(actual, expected, f"{what}: {difference}")


def assert_same(actual: tuple[Tensor, State], expected: tuple[Tensor, State], tolerance: float, what: str) -> None:
    """`assert_near` for an output and a final state."""
    assert_near(actual[0], expected[0], tolerance, f"{what}, output")
    require(
        len(actual[1]) == len(expected[1]),
        f"{what}: the state has {len(actual[1])} parts where {len(expected[1])} are right",
    )
    for i, (part, right) in enumerate(zip(actual[1], expected[1], strict=True)):
        assert_near(part, right, tolerance, f"{what}, state part {i}")


def assert_equal(actual: Tensor, expected: Tensor, what: str) -> None:
    """Raise MismatchError unless all values are equal."""
    if not torch.equal(actual, expected):
        _complain(actual, expected, what)


def _complain(actual: Tensor, expected: Tensor, what: str) -> None:
    """Raise MismatchError for the place of the largest difference; a NaN on one side only counts as the largest."""
    actual, expected = _plain(actual), _plain(expected)
    difference = (actual - expected).abs()
    difference = torch.where(actual.isnan() != expected.isnan(), torch.inf, difference.nan_to_num())
    place = int(difference.argmax())
    raise MismatchError(what, expected.flatten()[place].item(), actual.flatten()[place].item())


def _plain(numbers: Tensor) -> Tensor:
    """Detached and in float64; complex numbers, such as gradients of complex parameters, as pairs."""
    numbers = numbers.detach()
    return (torch.view_as_real(numbers) if numbers.is_complex() else numbers).double()
