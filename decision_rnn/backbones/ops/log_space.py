"""Linear recurrences of exponentials, of which only the logarithms are held."""

import torch
from torch import Tensor

from decision_rnn.backbones.contract import State
from decision_rnn.backbones.ops.chunks import run_between_resets
from decision_rnn.backbones.ops.recurrence import keep_mask, linear_recurrence


def weighted_sums(
    score: Tensor, value: Tensor, maximum: Tensor, sums: Tensor, reset: Tensor | None, decay_rate: Tensor | float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """S_t = exp(-w) S_{t-1} + exp(score_t) value_t with the decay rate w, divided by exp(m_t) with
    m_t = max(m_{t-1} - w, score_t), so that no exponent is above 0. No gradient passes through m, on which the
    quotients of such sums do not depend.

    Takes `score` and `value`, (batch, time, ...), which broadcast, and m (minus infinity before an episode) and
    S / exp(m) before the first step; returns S_t / exp(m_t), m_t and m_{t-1} for every t.
    """
    rate = decay_rate.detach() if isinstance(decay_rate, Tensor) else decay_rate
    ones = [1] * (score.dim() - 2)
    log_keep = None if reset is None else keep_mask(reset, score.dtype).log().view(*reset.shape, *ones)
    maxima, earlier = [], []
    for t, score_t in enumerate(score.detach().unbind(1)):
        maximum = maximum if log_keep is None else maximum + log_keep[:, t]
        earlier.append(maximum)
        maximum = torch.maximum(maximum.detach() - rate, score_t)
        maxima.append(maximum)
    m, before = torch.stack(maxima, dim=1), torch.stack(earlier, dim=1)
    decay = torch.exp(before - decay_rate - m).expand_as(value)  # zero at resets, where `before` is minus infinity
    h = linear_recurrence(decay.flatten(2), (torch.exp(score - m) * value).flatten(2), sums.flatten(1))
    return h.view_as(value), m, before


def weighted_sums_step(
    score: Tensor, value: Tensor, maximum: Tensor, sums: Tensor, decay_rate: Tensor | float = 0.0
) -> tuple[Tensor, Tensor]:
    """One step of `weighted_sums`: S_t / exp(m_t) and m_t."""
    faded = maximum - decay_rate
    maximum = torch.maximum(faded, score).detach()
    return torch.exp(faded - maximum) * sums + torch.exp(score - maximum) * value, maximum


def log_space_recurrence(log_a: Tensor, log_b: Tensor, initial: Tensor, reset: Tensor | None = None) -> Tensor:
    """All states of h_t = a_t * h_{t-1} + b_t for positive a and b, from their logarithms, in parallel over time.

    Feng et al., "Were RNNs All We Needed?" (2024), appendix B.1, after Heinsen, "Efficient Parallelization of a
    Ubiquitous Sequential Computation" (2023):

        A_t = sum_{s <= t} log a_s
        h_t = exp(A_t) h_0 + exp(A_t + log sum_{s <= t} exp(log b_s - A_s))

    The paper includes h_0 in the sum by its logarithm; here it is a separate term, so that it may be zero or negative
    and has a gradient. Exact up to rounding: the terms are differences of A, whose absolute precision falls as |A|
    grows with time, so that in float32 the relative error of h is about 1e-4 where |A| is 1000.
    """

    def run(log_a: Tensor, log_b: Tensor, state: State) -> tuple[Tensor, State]:
        total = log_a.cumsum(1)
        inputs = torch.logcumsumexp(log_b - total, dim=1)
        h = torch.exp(total + inputs) + torch.exp(total) * state[0].unsqueeze(1)
        return h, (h[:, -1],)

    return run_between_resets(run, (log_a, log_b), (initial,), reset)[0]
