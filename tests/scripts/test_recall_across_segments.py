"""The task of `scripts/recall_across_segments.py`, read as one stream from segment to segment."""

import torch
from recall_across_segments import CONTEXT, DELAYS, ROWS, Signs, accuracy


def test_sign_is_shown_at_the_first_step_and_is_the_answer_at_the_last() -> None:
    for delay in DELAYS:
        signs = Signs(delay, seed=3)
        x, answers, resets = (torch.cat(parts, 1) for parts in zip(*(signs.sample() for _ in range(40)), strict=True))
        assert x.shape == (ROWS, 40 * CONTEXT, 2)
        for row in range(ROWS):
            first, last = resets[row].nonzero()[:, 0].tolist(), x[row, :, 1].nonzero()[:, 0].tolist()
            last = [end for end in last if end >= first[0]]
            assert [end - start for start, end in zip(first, last, strict=False)] == [delay] * len(last)
            assert x[row, :, 0].nonzero()[:, 0].tolist() == first
            for start, end in zip(first, last, strict=False):
                assert x[row, start, 0] == 2 * answers[row, end] - 1
        assert abs(answers.mean() - 0.5) < 0.1


def test_mlp_guesses() -> None:
    assert abs(accuracy("mlp", None, delay=5, seed=0) - 50) < 5
