"""HGRN, hierarchically gated linear recurrence: the forget gate has a lower bound that grows with depth.

Qin et al., "Hierarchically Gated Recurrent Neural Network for Sequence Modeling" (2023), section 3, in layer k:

    lambda_t = gamma_k + (1 - gamma_k) * sigmoid(W_f x_t + b_f)                 forget gate
    h_t = lambda_t exp(i theta) * h_{t-1} + (1 - lambda_t) * silu(W_c x_t + b_c)       candidate; all complex
    y_t = W_o (norm([Re h_t, Im h_t]) * silu(W_g x_t + b_g)) + b_o              output gate

gamma_1 = 0, and gamma_k grows from layer to layer in every channel, so that low layers model what is near and high
layers what is far.

Deviations from the paper: the paper's gamma is a cumulative sum of a softmax over layers; here layer k raises the
bound by a learnt fraction sigmoid(rise) of the remaining distance to 1, gamma_k = gamma_{k-1} + (1 - gamma_{k-1})
sigmoid(rise_k): the same sequences, from the same start, 0, 1/H, 2/H and so on for H layers, without a parameter that
all layers share. A layer alone is the first. b_f starts from time_scales.py: the half-lives of layer k are spread from
that of a gate that is half open above its bound (one step in the first layer) to `init_half_life`, or are all the
former where that is longer, as in the top layer of 24 with the default. Norm and output gate are those of the authors'
code, as is theta's start.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import Layer, SequenceMixer, State, config_dataclass, register_backbone
from decision_rnn.backbones.ops.complex_pairs import product
from decision_rnn.backbones.ops.recurrence import linear_recurrence
from decision_rnn.backbones.time_scales import FadingConfig


@config_dataclass
class HGRNConfig(FadingConfig):
    """HGRN, "Hierarchically Gated Recurrent Neural Network for Sequence Modeling"."""

    name: str = "hgrn"


@register_backbone(HGRNConfig)
class HGRN(Layer):
    """State: the real and the imaginary part of h, each (batch, width)."""

    recurrent_names = ("theta", "rise")
    rise: nn.Parameter | None

    def __init__(self, config: HGRNConfig) -> None:
        width = config.width
        super().__init__((width,), (width,))
        self.sizes = (width, 2 * width, 2 * width)  # f, c and g
        self.input = nn.Linear(width, sum(self.sizes))
        self.theta = nn.Parameter(10_000.0 ** (-2 * torch.arange(width) / width))
        self.norm = nn.LayerNorm(2 * width)
        self.output = nn.Linear(2 * width, width)
        self.register_parameter("rise", None)
        self.below: tuple[HGRN, ...] = ()  # in a tuple, since it is not a part of this module
        self.config, self.depth = config, 0
        self._init_forget_bias(0.0)

    def place_above(self, below: SequenceMixer) -> None:
        assert isinstance(below, HGRN)
        width, layers = self.config.width, self.config.layers
        self.below, self.depth = (below,), below.depth + 1
        self.rise = nn.Parameter(torch.full_like(self.norm.bias[:width], -math.log(layers - self.depth)))
        self._init_forget_bias(self.depth / layers)

    def _init_forget_bias(self, bound: float) -> None:
        """Set the bias of the forget gate, given its lower bound."""
        half_lives = self.config.half_lives(self.sizes[0], shortest=-math.log(2) / math.log((1 + bound) / 2))
        forgotten = -torch.expm1(-math.log(2) / half_lives)
        with torch.no_grad():
            self.input.bias[: self.sizes[0]] = torch.log((1 - bound - forgotten) / forgotten)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        initial = torch.complex(*(state or self.initial_state(len(x))))
        decay, drive, gate = self._project(x)
        h = linear_recurrence(torch.complex(*decay), torch.complex(*drive), initial, reset)
        return self._output((h.real, h.imag), gate), (h[:, -1].real.clone(), h[:, -1].imag.clone())

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        decay, drive, gate = self._project(x)
        parts = tuple(part + new for part, new in zip(product(decay, state), drive, strict=True))
        return self._output(parts, gate), parts

    def lower_bound(self) -> Tensor | float:
        """gamma, (width,); 0 in the first layer."""
        if self.rise is None:
            return 0.0
        below = self.below[0].lower_bound()
        return below + (1 - below) * torch.sigmoid(self.rise)

    def _project(self, x: Tensor) -> tuple[State, State, Tensor]:
        """The decay and (1 - lambda) c as complex pairs, (..., width), and the output gate, always in float32."""
        forget, candidate, gate = self.input(x).to(self.norm.weight.dtype).split(self.sizes, dim=-1)
        free = 1 - self.lower_bound()
        forgotten = free * torch.sigmoid(-forget)  # without the cancellation of 1 - lambda
        keep = 1 - free + free * torch.sigmoid(forget)
        drive = tuple(forgotten * part for part in F.silu(candidate).chunk(2, dim=-1))
        return (keep * torch.cos(self.theta), keep * torch.sin(self.theta)), drive, F.silu(gate)

    def _output(self, parts: State, gate: Tensor) -> Tensor:
        return self.output(self.norm(torch.cat(parts, dim=-1)) * gate)
