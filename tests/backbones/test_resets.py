"""Resets: positions and mask agree, however they are made."""

import torch

from decision_rnn.backbones import Resets


def positions(resets: Resets) -> list[tuple[int, int]]:
    return list(zip(resets.rows.tolist(), resets.steps.tolist(), strict=True))


def test_resets_from_a_mask_and_from_positions_are_the_same() -> None:
    mask = torch.zeros(4, 6, dtype=torch.bool)
    places = [(0, 5), (2, 0), (2, 3), (3, 1)]
    for row, step in places:
        mask[row, step] = True
    rows, steps = torch.tensor(places[::-1]).T
    for resets in (Resets.from_mask(mask), Resets.at(rows, steps, (4, 6))):
        assert positions(resets) == places
        assert len(resets) == 4
        assert torch.equal(resets.mask, mask)


def test_interleaved_resets_fall_on_the_first_of_each_steps_tokens() -> None:
    resets = Resets.at(torch.tensor([1, 0]), torch.tensor([2, 1]), (2, 3)).interleave(3, 1)
    assert positions(resets) == [(0, 4), (1, 7)]
    assert positions(Resets.from_mask(resets.mask)) == positions(resets)
