"""mLSTM, xLSTM's matrix memory with exponential gating.

Beck et al., "xLSTM: Extended Long Short-Term Memory" (2024), equations 19 to 27, for every head:

    f_t = sigmoid(w_f x_t),  i_t = exp(w_i x_t),  o_t = sigmoid(W_o x_t)
    C_t = f_t C_{t-1} + i_t k_t^T v_t                          memory, (key width, value width)
    n_t = f_t n_{t-1} + i_t k_t                                normaliser
    y_t = W_y (o_t * norm(q_t C_t / max(|q_t n_t|, 1)))        the paper's block normalises every head

Stabilised (appendix A.2): C and n are stored divided by exp(m_t) with m_t = max(log f_t + m_{t-1}, w_i x_t), so that
the only exponent above 0 is in max(|q_t n_t|, exp(-m_t)). The output does not depend on m, so no gradient is taken
through it. `forward` is parallel within blocks of `CHUNK` steps and recurrent from block to block.

What differs: instead of the paper's up-projection, convolution and skip there is the block that all mixers share
(stack.py). The norm has no weights of its own. The gates start with zero weights on x, as in the authors' code, and
forget biases from time_scales.py; theirs, from 3 to 6 over the heads, are half-lives from 14 to 280 steps.

Limits: like retention (retention.py), apparently through the same cancellation: in float32 the gradients of first steps
have errors of up to 3e-6 of the largest one, of which rounding q, k and v alone causes 7e-7.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.built_in import MLSTMConfig
from decision_rnn.backbones.contract import SequenceMixer, State, register
from decision_rnn.backbones.ops.blocks import run_blocks

CHUNK = 64


@register(MLSTMConfig)
class MLSTM(SequenceMixer):
    """State: m, (batch, heads), minus infinity before the first step; and C with n as an additional last column,
    (batch, heads, head width, head width + 1)."""

    def __init__(self, config: MLSTMConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkvo = nn.Linear(config.width, 4 * config.width)
        self.gates = nn.Linear(config.width, 2 * config.heads)
        self.output = nn.Linear(config.width, config.width)
        with torch.no_grad():
            self.gates.weight.zero_()
            self.gates.bias[: config.heads] = config.forget_gate_bias(config.heads)
            self.gates.bias[config.heads :].normal_(std=0.1)

    def initial_state(self, batch_size: int) -> State:
        weight, width = self.output.weight, self.output.out_features // self.heads
        return (
            weight.new_full((batch_size, self.heads), -torch.inf),
            weight.new_zeros(batch_size, self.heads, width, width + 1),
        )

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        *parts, output_gate = self._project(x)
        with torch.autocast(x.device.type, enabled=False):
            h, state = run_blocks(self._block, parts, state, self.initial_state, reset, CHUNK, (0, 0, 0, 0, -torch.inf))
        return self._output(h, output_gate), state

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        before, memory = state
        *parts, output_gate = self._project(x.unsqueeze(1))
        q, k, v, forget, insert = (part.squeeze(2) for part in self._heads(*parts))
        top = torch.maximum(before + forget, insert).detach()
        kept, added = torch.exp(before + forget - top), torch.exp(insert - top)
        memory = kept[..., None, None] * memory + (added.unsqueeze(-1) * k).unsqueeze(-1) * v.unsqueeze(-2)
        return self._output(_read((q.unsqueeze(-1) * memory).sum(-2), top), output_gate.squeeze(1)), (top, memory)

    def _project(self, x: Tensor) -> tuple[Tensor, ...]:
        """q, k and v, (batch, time, width), log f and log i, (batch, time, heads), and o, (batch, time, width).

        In float32 also under autocast.
        """
        dtype = self.output.weight.dtype
        q, k, v, output_gate = self.qkvo(x).to(dtype).chunk(4, dim=-1)
        forget, insert = self.gates(x).to(dtype).chunk(2, dim=-1)
        return q, k, v, F.logsigmoid(forget), insert, torch.sigmoid(output_gate)

    def _heads(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """q and k, (batch, heads, time, head width); v followed by a 1, (batch, heads, time, head width + 1); log f and
        log i, (batch, heads, time)."""
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts[:3])
        v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
        forget, insert = (part.transpose(1, 2) for part in parts[3:])
        return q, k * k.shape[-1] ** -0.5, v, forget, insert

    def _block(self, parts: tuple[Tensor, ...], state: State | None, void: Tensor | None) -> tuple[Tensor, State]:
        """A block of steps in parallel: its h, (batch, time, heads, head width), and the state after it."""
        q, k, v, forget, insert = self._heads(*parts)
        before, memory = self.initial_state(len(q)) if state is None else state
        time = q.shape[2]
        # log(f_{s+1} ... f_t), the decay of step s at t: summed from s on, since a difference of two sums from the
        # beginning loses the digits of small terms.
        later = torch.ones(time, time, dtype=torch.bool, device=q.device).tril(-1)
        left = torch.where(later, forget.unsqueeze(-1), 0).cumsum(2)
        hidden = ~(later | torch.eye(time, dtype=torch.bool, device=q.device))
        of_memory = before.unsqueeze(-1) + forget.cumsum(2)
        of_steps = (left + insert.unsqueeze(2)).masked_fill(hidden, -torch.inf)
        top = torch.maximum(of_steps.amax(-1), of_memory).detach()
        finite = top.clamp_min(torch.finfo(top.dtype).min) if void is not None else top  # it is -inf at void steps
        of_steps, of_memory = torch.exp(of_steps - finite.unsqueeze(-1)), torch.exp(of_memory - finite)
        sums = (q @ k.transpose(-1, -2) * of_steps) @ v + of_memory.unsqueeze(-1) * (q @ memory)
        memory = k.transpose(-1, -2) @ (of_steps[:, :, -1].unsqueeze(-1) * v) + of_memory[..., -1:, None] * memory
        return _read(sums, finite).transpose(1, 2), (top[..., -1].clone(), memory)

    def _output(self, h: Tensor, gate: Tensor) -> Tensor:
        """The output from h, (..., heads, head width)."""
        return self.output(gate * F.layer_norm(h, h.shape[-1:]).flatten(-2))


def _read(sums: Tensor, top: Tensor) -> Tensor:
    """q C / max(|q n|, 1), from q C followed by q n, both divided by exp(top), which may overflow."""
    least = torch.exp(-top).clamp_min(torch.finfo(top.dtype).tiny).unsqueeze(-1)
    return sums[..., :-1] / torch.maximum(sums[..., -1:].abs(), least)
