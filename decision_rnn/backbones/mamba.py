"""Mamba: a selective state space (S6) whose step size, input and output maps depend on the input.

Gu & Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces" (2023), algorithm 2 and section 3.4, with
`inner` = expansion * width channels of `state_size` states each:

    u_t, z_t = W_in x_t
    v_t = silu(b + sum_{j < kernel} w_j * u_{t-j})                     short convolution of every channel
    dt_t = softplus(W_dt W_r v_t + b_dt),  B_t = W_B v_t,  C_t = W_C v_t
    h_t = exp(dt_t A) h_{t-1} + dt_t B_t v_t                           A = -exp(a), initially -1, -2, ... (S4D-Real)
    y_t = W_out (silu(z_t) * (C_t h_t + D v_t))

W_r has width / 16 rows, rounded up; softplus(b_dt) is initialised so that the first state of each channel, which keeps
exp(-dt), has its half-life (time_scales.py); that of state n is n times shorter.

Deviations from the paper: the paper spreads softplus(b_dt) over [0.001, 0.1], half-lives from 7 to 690 steps. An
episode's first steps are convolved with zeros rather than with the previous episode. On a CPU the scan is a loop over
time; on a GPU the factors of a block of steps are stored in memory, where the paper's kernel keeps them on chip.

Of segments longer than a block, only the h before each block is stored for the backward pass, and the others are
computed again (the paper's section 3.3.2): memory for all would be state_size times that of the inputs.

On a CPU core the loop's time is that of moving inner * state_size numbers per step through memory: it stores a block's
h alone, and computes factors and products again. Powers of 2 replace exponentials, which MKL computes slowly on AMD
processors; `(h * c).sum(-1)` replaces a batched matrix-vector product, which torch computes row by row.
"""

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from decision_rnn.backbones.contract import Kernel, Layer, State, config_dataclass, register_backbone, without_autocast
from decision_rnn.backbones.conv import convolve, convolve_step
from decision_rnn.backbones.ops.chunks import run_chunks
from decision_rnn.backbones.ops.recurrence import first_order, linear_recurrence
from decision_rnn.backbones.time_scales import FadingConfig
from decision_rnn.utils.parsing import PositiveInt

BLOCK = 64
"""The number of steps whose states are in memory at the same time."""


@config_dataclass
class MambaConfig(FadingConfig):
    """Mamba, "Linear-Time Sequence Modeling with Selective State Spaces".

    Attributes:
        expansion: Number of inner channels as a multiple of `width`.
        state_size: Number of states of every inner channel.
        kernel: Kernel size of the short convolution, in tokens.
    """

    name: str = "mamba"
    expansion: PositiveFloat = 2.0
    state_size: PositiveInt = 16
    kernel: Kernel = 4


@register_backbone(MambaConfig)
class Mamba(Layer):
    """State: the last kernel - 1 inputs of the convolution, oldest first, (batch, kernel - 1, inner), and h,
    (batch, inner, state_size)."""

    # The authors' code decays neither A nor D; D, a vector, has no decay in any case.
    recurrent_names = ("a_log",)

    def __init__(self, config: MambaConfig) -> None:
        inner, rank = round(config.width * config.expansion), math.ceil(config.width / 16)
        super().__init__((config.kernel - 1, inner), (inner, config.state_size))
        self.sizes = (rank, config.state_size, config.state_size)
        self.input = nn.Linear(config.width, 2 * inner, bias=False)
        self.convolution: Any = nn.Conv1d(inner, inner, config.kernel, groups=inner)
        self.selection = nn.Linear(inner, sum(self.sizes), bias=False)
        self.dt = nn.Linear(rank, inner)
        self.a_log = nn.Parameter(torch.arange(1.0, config.state_size + 1).log().repeat(inner, 1))
        self.d = nn.Parameter(torch.ones(inner))
        self.output = nn.Linear(inner, config.width, bias=False)
        dt = math.log(2) / config.half_lives(inner)
        with torch.no_grad():
            self.dt.bias.copy_(dt + torch.log(-torch.expm1(-dt)))  # the inverse of softplus

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        past, h = state or self.initial_state(len(x))
        u, gate = self._inputs(x)
        v, past = convolve(self.convolution.weight[:, 0], self.convolution.bias, u, past, reset)
        v, dt, b, c = self._select(v)
        y, h = selective_scan(dt, -torch.exp(self.a_log), dt * v, b, c, h, reset)
        return self._output(y, v, gate), (past, h)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        past, h = state
        u, gate = self._inputs(x)
        v, past = convolve_step(self.convolution.weight[:, 0], self.convolution.bias, u, past)
        v, dt, b, c = self._select(v)
        h = torch.exp(dt.unsqueeze(-1) * -torch.exp(self.a_log)) * h + (dt * v).unsqueeze(-1) * b.unsqueeze(-2)
        return self._output((h * c.unsqueeze(-2)).sum(-1), v, gate), (past, h)

    def _inputs(self, x: Tensor) -> tuple[Tensor, ...]:
        """u and z, in float32 also under autocast."""
        return self.input(x).to(self.a_log.dtype).chunk(2, dim=-1)

    def _select(self, v: Tensor) -> tuple[Tensor, ...]:
        """v, dt, (..., inner), and B and C, (..., state_size), from the convolution."""
        v = F.silu(v)
        rank, b, c = self.selection(v).to(v.dtype).split(self.sizes, dim=-1)
        return v, F.softplus(self.dt(rank).to(v.dtype)), b, c

    def _output(self, y: Tensor, v: Tensor, gate: Tensor) -> Tensor:
        return self.output(F.silu(gate) * torch.addcmul(y, v, self.d))


def selective_scan(
    dt: Tensor, a: Tensor, u: Tensor, b: Tensor, c: Tensor, initial: Tensor, reset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The outputs y, (batch, time, inner), and the last h, (batch, inner, state_size).

    Args:
        dt: (batch, time, inner), the step sizes.
        a: (inner, state_size), the logarithm of what a step of size 1 keeps.
        u: (batch, time, inner), the inputs times the step sizes.
        b, c: (batch, time, state_size), the input and output maps.
        initial: (batch, inner, state_size), h before the first step.
        reset: (batch, time) bool, true where h is replaced by zero before the step: there the step size is infinite.
    """
    # On a GPU, a kernel for each step of the loop would take longer than to store the factors of all.
    if dt.is_cuda:
        return stored_scan(dt, a, u, b, c, initial, reset)
    y, last = _SelectiveScan.apply(reset, dt, a, u, b, c, initial)
    return y, last


def stored_scan(
    dt: Tensor, a: Tensor, u: Tensor, b: Tensor, c: Tensor, initial: Tensor, reset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`selective_scan` by the linear recurrence over all states of a block, (batch, time, inner * state_size)."""

    def run(dt: Tensor, u: Tensor, b: Tensor, c: Tensor, state: State, episode: Tensor) -> tuple[Tensor, State]:
        decay, drive = torch.exp(dt.unsqueeze(-1) * a), u.unsqueeze(-1) * b.unsqueeze(-2)
        starts = None if reset is None else F.pad(episode, (1, 0)).diff() > 0
        h = linear_recurrence(decay.flatten(2), drive.flatten(2), state[0].flatten(1), starts).unflatten(2, a.shape)
        return (h * c.unsqueeze(-2)).sum(-1), (h[:, -1].clone(),)

    recomputing: Any = partial(checkpoint, run, use_reentrant=False, preserve_rng_state=False)
    y, (last,) = run_chunks(run if dt.shape[1] <= BLOCK else recomputing, (dt, u, b, c), (initial,), reset, BLOCK)
    return y, last


class _SelectiveScan(torch.autograd.Function):
    """The loop, with channels last in memory: (batch, state_size, inner), since there are more channels than states."""

    @staticmethod
    def forward(
        ctx: Any, reset: Tensor | None, dt: Tensor, a: Tensor, u: Tensor, b: Tensor, c: Tensor, initial: Tensor
    ) -> tuple[Tensor, Tensor]:
        a, h, y = a.T.contiguous(), initial.transpose(1, 2), torch.empty_like(dt)
        size = dt if reset is None else dt.masked_fill(reset.unsqueeze(2), torch.inf)
        doublings, decay = a / math.log(2), torch.empty(h.shape, dtype=a.dtype, device=a.device)
        # Separate tensors: the operating system would map and clear the memory of one large tensor at every call.
        states = [torch.empty_like(decay) for _ in range(min(BLOCK, dt.shape[1]))]
        before = [h]
        for t in range(dt.shape[1]):
            if t and t % BLOCK == 0:
                before.append(h.clone())
            h = _advance(t, h, states[t % BLOCK], size, doublings, u, b, decay)
            y[:, t] = _product(c[:, t, None], h).squeeze(1)
        ctx.blocks = len(before)
        ctx.save_for_backward(dt, size, a, u, b, c, *before, *states)
        return y, h.transpose(1, 2).contiguous()

    @staticmethod
    @first_order
    def backward(ctx: Any, grad_y: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
        dt, size, a, u, b, c, *saved = ctx.saved_tensors
        before, states = saved[: ctx.blocks], saved[ctx.blocks :]  # of the last block
        grad_dt, grad_u, grad_b, grad_c = map(torch.empty_like, (dt, u, b, c))
        grad, doublings = grad_last.transpose(1, 2).clone(memory_format=torch.contiguous_format), a / math.log(2)
        decay, work, grad_a = torch.empty_like(grad), torch.empty_like(grad), torch.zeros_like(grad)
        recomputed = [torch.empty_like(grad) for _ in range(BLOCK if ctx.blocks > 1 else 0)]
        for t in reversed(range(dt.shape[1])):
            if (t + 1) % BLOCK == 0 and t + 1 < dt.shape[1]:
                h, states = before[t // BLOCK], recomputed
                for i, state in enumerate(states):
                    h = _advance(t + 1 - BLOCK + i, h, state, size, doublings, u, b, decay)
            grad.addcmul_(grad_y[:, t, None], c[:, t, :, None])
            torch.sum(torch.mul(states[t % BLOCK], grad_y[:, t, None], out=work), -1, out=grad_c[:, t])
            torch.sum(torch.mul(grad, u[:, t, None], out=work), -1, out=grad_b[:, t])
            grad_u[:, t] = _product(b[:, t, None], grad).squeeze(1)
            grad.mul_(torch.mul(size[:, t, None], doublings, out=decay).exp2_())
            torch.mul(grad, states[t % BLOCK - 1] if t % BLOCK else before[t // BLOCK], out=work)
            grad_a.addcmul_(work, dt[:, t, None])
            grad_dt[:, t] = work.mul_(a).sum(1)
        return None, grad_dt, grad_a.sum(0).T, grad_u, grad_b, grad_c, grad.transpose(1, 2)


def _advance(t: int, h: Tensor, out: Tensor, size: Tensor, rate: Tensor, u: Tensor, b: Tensor, decay: Tensor) -> Tensor:
    """Compute the state after step t from h, in `out`; overwrites `decay`."""
    torch.mul(size[:, t, None], rate, out=decay).exp2_()
    return torch.mul(decay, h, out=out).addcmul_(u[:, t, None], b[:, t, :, None])


def _product(left: Tensor, right: Tensor) -> Tensor:
    """A product of matrices in the precision of its arguments, also under autocast."""
    with without_autocast(left):
        return left @ right
