"""minLSTM: an LSTM whose gates depend only on the input, so that it is a linear recurrence.

Feng et al., "Were RNNs All We Needed?" (2024), section 3.2 and appendix B:

    f_t = sigmoid(W_f x_t),  i_t = sigmoid(W_i x_t),  c_t = g(W_h x_t)
    f'_t = f_t / (f_t + i_t),  i'_t = i_t / (f_t + i_t)          length-independent scaling
    h_t = f'_t * h_{t-1} + i'_t * c_t

With `candidate: signed`, g(x) = x, the plain form of section 3.2.

What differs: as for minGRU (mingru.py). The quotient is computed as i' = sigmoid(log i - log f), because f and i
both underflow for strongly negative gates.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from decision_rnn.backbones.contract import SequenceMixer, State, register
from decision_rnn.backbones.mingru import MinimalConfig, log_positive, output_map, positive, positive_backward
from decision_rnn.backbones.ops.recurrence import (
    gated_recurrence,
    log_space_recurrence,
    previous_states,
    run_adjoint,
    run_interpolation,
)
from decision_rnn.backbones.resets import Resets


@dataclass(frozen=True, kw_only=True)
class MinLSTMConfig(MinimalConfig):
    """minLSTM, "Were RNNs All We Needed?"."""

    name: str = "minlstm"


@register(MinLSTMConfig)
class MinLSTM(SequenceMixer):
    """State: h, (batch, width * expansion)."""

    def __init__(self, config: MinLSTMConfig) -> None:
        super().__init__()
        self.inner = config.inner
        self.signed, self.log_space = config.candidate == "signed", config.scan == "log"
        self.gates = nn.Linear(config.width, 3 * self.inner)
        with torch.no_grad():
            self.gates.bias[: self.inner] += config.forget_bias
        self.output = output_map(config)

    def initial_state(self, batch_size: int) -> State:
        return (self.gates.weight.new_zeros(batch_size, self.inner),)

    def forward(self, x: Tensor, state: State | None = None, reset: Resets | None = None) -> tuple[Tensor, State]:
        (initial,) = self.initial_state(len(x)) if state is None else state
        if self.log_space:
            forget, insert, candidate = self.gates(x).to(initial.dtype).chunk(3, dim=-1)
            odds = F.logsigmoid(insert) - F.logsigmoid(forget)
            h = log_space_recurrence(F.logsigmoid(-odds), F.logsigmoid(odds) + log_positive(candidate), initial, reset)
        else:
            h = gated_recurrence(_GatedRecurrence, self.gates(x), initial, reset, self.signed)
        return self.output(h), (h[:, -1].clone(),)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        (h,) = state  # float32, also under autocast
        forget, insert, candidate = self.gates(x).to(h.dtype).chunk(3, dim=-1)
        candidate = candidate if self.signed else positive(candidate)
        h = torch.lerp(h, candidate, torch.sigmoid(F.logsigmoid(insert) - F.logsigmoid(forget)))
        return self.output(h), (h,)


class _GatedRecurrence(torch.autograd.Function):
    """The equations from pre-activations (batch, time, 3 * inner) to h, with one hand-written backward pass.

    With i' = sigmoid(log i - log f), let G be the gradient of i' times i' (1 - i'). The gradient of the forget gate's
    pre-activation is then -(1 - f) G, and that of the input gate's (1 - i) G.
    """

    @staticmethod
    def forward(ctx: Any, preactivations: Tensor, initial: Tensor, reset: Resets | None, signed: bool) -> Tensor:
        forget, insert, candidate = preactivations.chunk(3, dim=-1)
        gate = torch.sigmoid(F.logsigmoid(insert) - F.logsigmoid(forget))
        candidate = candidate if signed else positive(candidate)
        h = run_interpolation(gate, candidate, initial, reset)
        ctx.save_for_backward(preactivations, gate, candidate, h, initial)
        ctx.reset, ctx.signed = reset, signed
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        preactivations, gate, candidate, h, initial = ctx.saved_tensors
        forget, insert, _ = preactivations.chunk(3, dim=-1)
        keep = 1 - gate
        d, grad_initial = run_adjoint(keep, grads[0], ctx.reset)
        grad = torch.empty_like(preactivations)
        grad_forget, grad_insert, grad_candidate = grad.chunk(3, dim=-1)
        d.mul_(gate)  # now the gradient of the candidate
        grad_gate = keep.mul_(d).mul_(candidate - previous_states(h, initial, ctx.reset))
        torch.mul(torch.sigmoid(-forget).neg_(), grad_gate, out=grad_forget)
        torch.mul(torch.sigmoid(-insert), grad_gate, out=grad_insert)
        if ctx.signed:
            grad_candidate.copy_(d)
        else:
            positive_backward(d, candidate, out=grad_candidate)
        return grad, grad_initial, None, None
