"""Retention, RetNet's linear attention, in which every head has its own decay rate.

Sun et al., "Retentive Network: A Successor to Transformer for Large Language Models" (2023), equations 5 to 8:

    r_t = sum_{s <= t} gamma^{t-s} Re(<q_t e^{i(t-s) theta}, k_s>) v_s                  parallel form
    S_t = gamma e^{i theta} S_{t-1} + k_t^T v_t,  r_t = Re(q_t S_t)                     recurrent form
    y_t = W_o (swish(W_g x_t) * norm(r_t))

with gamma from time_scales.py, and a norm for every head. `forward` is the chunkwise form: parallel within chunks of
`CHUNK` steps, recurrent from chunk to chunk.

What differs from the paper or, where the paper leaves a choice open, from the authors' code (microsoft/torchscale):

- Decay: the paper's gamma = 1 - 2^{-5-head} are half-lives of 22, 44, 88, 177, ... steps.
- Positions: the state is rotated by theta at every step, whereas the paper rotates q and k by their distance from the
  start: the same function, without a growing position. Of xPos there is only gamma e^{i theta}: q and k are not scaled.
- theta: 10000^(-2j / head width) for j = 0, 1, ..., as in RoFormer, which does not reach 1 / 10000; the authors' code
  spaces the exponents evenly from 0 to 1, both included.
- Scale: the keys are divided by sqrt(head width), and the scores are not normalised further (section 2.3), since the
  norm removes any factor up to its epsilon.
- Norm: the paper's group norm with each head as a group, without weights and with an epsilon of 1e-5. The authors' code
  has RMSNorm, also without weights, with 1e-6.
- Initialisation: that of torch.nn.Linear. The authors' code uses Xavier with a gain of 2^-2.5, and of 1 for W_o.
- Heads: their number is an option, 4 by default; the paper fixes their width at 256.

Limits: an episode's first r is (q.k) v, which the norm divides by about |q.k|. Where that is near 0, rounding is
magnified: in float32 to 1e-5 of the largest output, and in stacks to 6e-5 of the largest gradient.
"""

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from decision_rnn.backbones.contract import HeadsConfig, Layer, State, register_backbone, without_autocast
from decision_rnn.backbones.ops.chunks import run_chunks
from decision_rnn.backbones.ops.complex_pairs import product, rotary_table, rotate
from decision_rnn.backbones.time_scales import FadingConfig
from decision_rnn.utils.parsing import config_dataclass

CHUNK = 64


@config_dataclass
class RetentionConfig(HeadsConfig, FadingConfig):
    """Retention, "Retentive Network".

    Attributes:
        heads: Number of heads, each with its own decay; their width must be even.
        expansion: Channels of the values as a multiple of `width`, rounded to a multiple of the heads.
    """

    name: str = "retention"
    expansion: PositiveFloat = 2.0
    rotary = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value_width < 2:  # the norm of one channel is zero
            raise ValueError(f"backbone.expansion {self.expansion} leaves a head less than two channels")

    @property
    def value_width(self) -> int:
        """Channels of the values of a head."""
        return round(self.width * self.expansion / self.heads)


@register_backbone(RetentionConfig)
class Retention(Layer):
    """State: S, (batch, heads, key width, value width). Each even row holds the real part of one of the keys' complex
    coordinates, the row after it minus its imaginary part, so that r = q S in real numbers."""

    gamma: Tensor
    rotations: Tensor

    def __init__(self, config: RetentionConfig) -> None:
        width, heads, size = config.width, config.heads, config.value_width
        super().__init__((heads, width // heads, size))
        self.heads, self.sizes = heads, (width, width, heads * size, heads * size)  # q, k, v and the gate
        self.qkvg = nn.Linear(width, sum(self.sizes), bias=False)
        self.output = nn.Linear(heads * size, width, bias=False)
        self.register_buffer("rotations", rotary_table(CHUNK, width // heads), persistent=False)
        self.register_buffer("gamma", config.decay(heads)[:, None, None])

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        *qkv, gate = self._project(x)
        with without_autocast(x):
            r, after = run_chunks(self._chunk, qkv, state or self.initial_state(len(x)), reset, CHUNK)
        return self._output(r, gate), after

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        q, k, v, gate = self._project(x)
        memory = self._decay_and_rotate(state[0]) + k.unsqueeze(-1) * v.unsqueeze(-2)
        return self._output((q.unsqueeze(-1) * memory).sum(-2), gate), (memory,)

    def _project(self, x: Tensor) -> tuple[Tensor, ...]:
        """q, k and v, (..., heads, head width), and the gate, (..., channels), in float32 also under autocast."""
        *qkv, gate = self.qkvg(x).to(self.output.weight.dtype).split(self.sizes, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)) for part in qkv)
        return q, k * k.shape[-1] ** -0.5, v, gate

    def _chunk(self, q: Tensor, k: Tensor, v: Tensor, state: State, episode: Tensor) -> tuple[Tensor, State]:
        """A chunk of steps in parallel: r, (batch, time, heads, value width), and the state after it."""
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        time = q.shape[2]
        age = torch.arange(time, device=q.device)
        rotations = self.rotations[:, :time].to(q.dtype)
        q, k = rotate(q, rotations), rotate(k, rotations)
        gamma = self.gamma.to(q.dtype)
        within = torch.where(age[:, None] >= age, gamma ** (age[:, None] - age).clamp_min(0), 0)
        since, until = gamma[..., 0] ** age, gamma[..., 0] ** (time - 1 - age)  # decay from the first step, to the last
        same = (episode.unsqueeze(2) == episode.unsqueeze(1)).unsqueeze(1)
        since = since * (episode == 0).unsqueeze(1)
        before = self._decay_and_rotate(state[0])
        r = (q @ k.transpose(-1, -2) * (within * same)) @ v + (q * since.unsqueeze(-1)) @ before
        after = k.transpose(-1, -2) @ (v * (until * same[:, :, -1]).unsqueeze(-1)) + since[..., -1, None, None] * before
        return r.transpose(1, 2), (_rotate_state(after, rotations[:, -1, :, None]),)

    def _decay_and_rotate(self, memory: Tensor) -> Tensor:
        """gamma e^{i theta} S: the state decayed and rotated by one step."""
        return _rotate_state(memory, (self.gamma * self.rotations[:, None, 1, :, None]).to(memory.dtype))

    def _output(self, r: Tensor, gate: Tensor) -> Tensor:
        """The output from r, (..., heads, value width)."""
        return self.output(F.silu(gate) * F.layer_norm(r, r.shape[-1:]).flatten(-2))


def _rotate_state(memory: Tensor, rotation: Tensor) -> Tensor:
    """e^{i angle} S, with cos and sin of the angles, (2, ..., key width / 2, 1)."""
    cos, sin = rotation
    real, minus_imag = memory.unflatten(-2, (-1, 2)).unbind(-2)
    return torch.stack(product((real, minus_imag), (cos, -sin)), dim=-2).flatten(-3, -2)
