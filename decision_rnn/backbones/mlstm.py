"""mLSTM, xLSTM's matrix memory with exponential gating.

Beck et al., "xLSTM: Extended Long Short-Term Memory" (2024), equations 19 to 27, for every head:

    f_t = sigmoid(w_f x_t),  i_t = exp(w_i x_t),  o_t = sigmoid(W_o x_t)
    C_t = f_t C_{t-1} + i_t k_t^T v_t                          memory, (key width, value width)
    n_t = f_t n_{t-1} + i_t k_t                                normaliser
    y_t = W_y (o_t * norm(q_t C_t / max(|q_t n_t|, 1)))        the paper's block normalises every head

Stabilised (appendix A.2): C and n are stored divided by exp(m_t) with m_t = max(log f_t + m_{t-1}, w_i x_t), so that
the only exponent above 0 is in max(|q_t n_t|, exp(-m_t)). The output does not depend on m, so no gradient is taken
through it. `forward` is parallel within chunks of `CHUNK` steps and recurrent from chunk to chunk.

Deviations from the paper: instead of the paper's up-projection, convolution and skip there is the block that all mixers
share (stack.py). The norm has no weights of its own. The gates start with zero weights on x, as in the authors' code,
and forget biases from time_scales.py; theirs, from 3 to 6 over the heads, are half-lives from 14 to 280 steps.

Limits: as those of retention (retention.py).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import HeadsConfig, Layer, State, register_backbone, without_autocast
from decision_rnn.backbones.ops.chunks import run_chunks
from decision_rnn.backbones.time_scales import FadingConfig
from decision_rnn.utils.parsing import config_dataclass

CHUNK = 64


@config_dataclass
class MLSTMConfig(HeadsConfig, FadingConfig):
    """mLSTM, "xLSTM: Extended Long Short-Term Memory". Each head has its own memory."""

    name: str = "mlstm"
    normalizes_heads = True


@register_backbone(MLSTMConfig)
class MLSTM(Layer):
    """State: m, (batch, heads), minus infinity before the first step; and C with n as an additional last column,
    (batch, heads, head width, head width + 1)."""

    def __init__(self, config: MLSTMConfig) -> None:
        width, heads, size = config.width, config.heads, config.width // config.heads
        super().__init__((heads,), (heads, size, size + 1), start=(-torch.inf, 0))
        self.heads = heads
        self.qkvo = nn.Linear(width, 4 * width)
        self.gates = nn.Linear(width, 2 * heads)
        self.output = nn.Linear(width, width)
        with torch.no_grad():
            self.gates.weight.zero_()
            self.gates.bias[:heads] = config.forget_gate_bias(heads)
            self.gates.bias[heads:].normal_(std=0.1)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        *inputs, output_gate = self._project(x)
        with without_autocast(x):
            h, state = run_chunks(_chunk, inputs, state or self.initial_state(len(x)), reset, CHUNK)
        return self._output(h, output_gate), state

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        before, memory = state
        q, k, v, forget, insert, output_gate = self._project(x)
        maximum = torch.maximum(before + forget, insert).detach()
        kept, added = torch.exp(before + forget - maximum), torch.exp(insert - maximum)
        memory = kept[..., None, None] * memory + (added.unsqueeze(-1) * k).unsqueeze(-1) * v.unsqueeze(-2)
        return self._output(_read((q.unsqueeze(-1) * memory).sum(-2), maximum), output_gate), (maximum, memory)

    def _project(self, x: Tensor) -> tuple[Tensor, ...]:
        """q and k, (..., heads, head width), v followed by a 1, log f and log i, (..., heads), and o, (..., width).

        In float32 also under autocast.
        """
        dtype = self.output.weight.dtype
        *qkv, output_gate = self.qkvo(x).to(dtype).chunk(4, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)) for part in qkv)
        forget, insert = self.gates(x).to(dtype).chunk(2, dim=-1)
        v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
        return q, k * k.shape[-1] ** -0.5, v, F.logsigmoid(forget), insert, torch.sigmoid(output_gate)

    def _output(self, h: Tensor, gate: Tensor) -> Tensor:
        """The output from h, (..., heads, head width)."""
        return self.output(gate * F.layer_norm(h, h.shape[-1:]).flatten(-2))


def _chunk(
    q: Tensor, k: Tensor, v: Tensor, forget: Tensor, insert: Tensor, state: State, episode: Tensor
) -> tuple[Tensor, State]:
    """A chunk of steps in parallel: its h, (batch, time, heads, head width), and the state after it."""
    q, k, v, forget, insert = (part.transpose(1, 2) for part in (q, k, v, forget, insert))
    (before, memory), time = state, q.shape[2]
    # log(f_{s+1} ... f_t), the decay of step s at t: summed from s on, since a difference of two sums from the
    # beginning loses the digits of small terms.
    later = torch.ones(time, time, dtype=torch.bool, device=q.device).tril(-1)
    left = torch.where(later, forget.unsqueeze(-1), 0).cumsum(2)
    visible = (episode.unsqueeze(2) == episode.unsqueeze(1)).tril().unsqueeze(1)
    log_steps = (left + insert.unsqueeze(2)).masked_fill(~visible, -torch.inf)
    log_memory = before.unsqueeze(-1) + forget.cumsum(2)
    log_memory = log_memory.masked_fill((episode > 0).unsqueeze(1), -torch.inf)
    maximum = torch.maximum(log_steps.amax(-1), log_memory).detach()
    weights, kept = torch.exp(log_steps - maximum.unsqueeze(-1)), torch.exp(log_memory - maximum)
    sums = (q @ k.transpose(-1, -2) * weights) @ v + kept.unsqueeze(-1) * (q @ memory)
    memory = k.transpose(-1, -2) @ (weights[:, :, -1].unsqueeze(-1) * v) + kept[..., -1:, None] * memory
    return _read(sums, maximum).transpose(1, 2), (maximum[..., -1].clone(), memory)


def _read(sums: Tensor, maximum: Tensor) -> Tensor:
    """q C / max(|q n|, 1), from q C followed by q n, both divided by exp(maximum), which may overflow."""
    least = torch.exp(-maximum).clamp_min(torch.finfo(maximum.dtype).tiny).unsqueeze(-1)
    return sums[..., :-1] / torch.maximum(sums[..., -1:].abs(), least)
