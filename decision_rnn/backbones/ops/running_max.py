"""The running maximum by which layers divide sums of exponentials, so that no exponent is above 0."""

import torch
from torch import Tensor

from decision_rnn.backbones.resets import located, rows_by_step, with_rows


def running_max(score: Tensor, before: Tensor, reset: Tensor | None, decay: Tensor | None = None) -> Tensor:
    """m_t = max(m_{t-1} - decay, score_t) over time, restarted from minus infinity at resets.

    Args:
        score: (batch, time, width).
        before: m before the first step, (batch, width).
        reset: Where m restarts.
        decay: (width,); none if left out.

    Returns:
        m: (batch, time, width).
    """
    tops = []
    for score_t, rows in zip(score.unbind(1), rows_by_step(reset, score.shape[1]), strict=True):
        if rows is not None:
            before = with_rows(before, rows, -torch.inf)
        before = torch.maximum(before if decay is None else before - decay, score_t)
        tops.append(before)
    return torch.stack(tops, dim=1)


def earlier_max(top: Tensor, before: Tensor, reset: Tensor | None) -> Tensor:
    """m_{t-1} for every t, from m, (batch, time, width), and m before the first step, (batch, width)."""
    earlier = torch.cat([before.unsqueeze(1), top[:, :-1]], dim=1)
    resets = located(reset)
    return earlier if resets is None else resets.fill_(earlier, -torch.inf)
