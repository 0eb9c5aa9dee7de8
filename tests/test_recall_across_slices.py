"""Truncated backpropagation with a carried state: what scripts/recall_across_slices.py learns beyond one slice."""

import pytest
import recall_across_slices as script
import torch


def test_signs_are_seen_once_and_asked_for_after_the_delay_across_slices() -> None:
    signs = script.Signs(delay=14, carried=True)
    batches = [signs.sample() for _ in range(6)]
    x, answer = torch.cat([b.x for b in batches], dim=1), torch.cat([b.sign for b in batches], dim=1)
    for row in range(4):
        (asked,) = torch.nonzero(x[row, 14:, 1], as_tuple=True)
        assert asked.diff().tolist() == [15] * (len(asked) - 1)
        assert answer[row, 14 + asked].tolist() == ((x[row, asked, 0] + 1) / 2).tolist()


@pytest.mark.parametrize(
    ("memory", "carried", "learnt"), [(100, True, True), (100, False, False), (1, True, False)], ids=str
)
def test_a_sign_of_an_earlier_slice_is_recalled_if_the_state_is_carried_and_fades_slowly(
    monkeypatch: pytest.MonkeyPatch, memory: int, carried: bool, learnt: bool
) -> None:
    monkeypatch.setattr(script, "STEPS", 150)
    share = script.accuracy("lru", 15, carried, memory=memory)
    assert share > 0.9 if learnt else share < 0.7
