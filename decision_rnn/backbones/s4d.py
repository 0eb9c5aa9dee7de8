"""S4D, the diagonal state space: every channel drives its own complex states with constant decays.

Gu et al., "On the Parameterization and Initialization of Diagonal State Space Models" (2022), sections 3 and 4; the
layer of Decision S4 (Bar David et al. 2023) with a diagonal state matrix. For each of the `width` channels u, with
state_size / 2 complex states (the conjugate half is implied):

    A = -exp(a) + i b,   x_t = exp(dt A) x_{t-1} + (exp(dt A) - 1) / A * u_t          zero-order hold, B = 1
    s_t = 2 Re(C x_t) + D u_t
    y_t = GLU(W GELU(s_t))

Initialisation (section 4, S4D-Lin): A_n = -1/2 + i pi n. dt is initialised so that the states of each channel have its
half-life (time_scales.py).

`forward` is the paper's convolution within chunks of `CHUNK` steps, without storing the states, and the recurrence
from chunk to chunk: the loop of recurrence.py over 32 complex states a channel takes ten times as long.

Deviations from the paper: the paper spreads dt over [0.001, 0.1], half-lives from 14 to 1,400 steps. (exp(dt A) - 1) /
A is multiplied into C instead of the input (as in S4's own convolution), so that the state differs by a constant
factor.
"""

import math
from functools import partial
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from decision_rnn.backbones.contract import Layer, State, config_dataclass, register_backbone, without_autocast
from decision_rnn.backbones.conv import convolve
from decision_rnn.backbones.ops.chunks import run_chunks
from decision_rnn.backbones.ops.complex_pairs import ComplexPair, product
from decision_rnn.backbones.time_scales import FadingConfig

CHUNK = 64


@config_dataclass
class S4DConfig(FadingConfig):
    """S4D, "On the Parameterization and Initialization of Diagonal State Space Models".

    Attributes:
        state_size: Number of states of every channel, two for each stored complex number.
    """

    name: str = "s4d"
    state_size: Annotated[int, Field(ge=2, multiple_of=2)] = 64


class DiagonalStateSpace(Layer):
    """s_t = 2 Re(C x_t), the state space without D. State: the real and imaginary parts of x, each (batch, width,
    state_size / 2)."""

    recurrent_names = ("dt_log", "a_log", "a_imag")

    def __init__(self, config: S4DConfig) -> None:
        width, pairs = config.width, config.state_size // 2
        super().__init__((width, pairs), (width, pairs))
        real = torch.tensor(0.5)
        self.dt_log = nn.Parameter(torch.log(math.log(2) / real / config.half_lives(width)).float())
        self.a_log = nn.Parameter(real.log().repeat(width, pairs))
        self.a_imag = nn.Parameter((math.pi * torch.arange(pairs)).repeat(width, 1))
        self.c = nn.Parameter(torch.randn(width, pairs, 2) * 0.5**0.5)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        length = min(x.shape[1], CHUNK)
        with without_autocast(x):
            decay, (out_real, out_imag) = self._discrete(torch.arange(length + 1, device=x.device))
            # Contribution to s of a state from that many steps ago: Re(readout * decay * state).
            read_real, read_imag = product((out_real.unsqueeze(1), out_imag.unsqueeze(1)), decay)
            kernel = read_real[:, :length].sum(-1)
            toeplitz = F.pad(kernel.flip(1), (0, length - 1)).unfold(1, length, 1).flip(1)  # (width, to, from)
            chunk = partial(_chunk, toeplitz, decay, (read_real, -read_imag))
            return run_chunks(chunk, (x.to(self.c.dtype),), state or self.initial_state(len(x)), reset, CHUNK)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        decay, readout = self._discrete(torch.ones(1, device=x.device))
        real, imag = product((state[0], state[1]), (decay[0][:, 0], decay[1][:, 0]))
        real = real + x.to(real.dtype).unsqueeze(-1)
        return (real * readout[0] - imag * readout[1]).sum(-1), (real, imag)

    def recurrent_learning_rate(self, learning_rate: float) -> float:
        """At most 1e-3, as in the authors' code (example.py of state-spaces/s4)."""
        return min(learning_rate, 1e-3)

    def _discrete(self, age: Tensor) -> tuple[ComplexPair, ComplexPair]:
        """exp(age dt A), (width, ages, pairs), and 2 C (exp(dt A) - 1) / A, (width, pairs)."""
        # In float64: age * dt * imag may be hundreds of radians, of which float32 keeps five digits.
        dt, real, imag = torch.exp(self.dt_log.double())[:, None], -torch.exp(self.a_log.double()), self.a_imag.double()
        rate, turn = dt * real, dt * imag
        age = age[:, None].double()
        magnitude, phase = torch.exp(age * rate.unsqueeze(1)), age * turn.unsqueeze(1)
        # exp(dt A) - 1 without cancellation at small dt: cos - 1 = -2 sin^2(phase / 2).
        less_one = torch.expm1(rate) * torch.cos(turn) - 2 * torch.sin(turn / 2) ** 2
        hold = product((less_one, torch.exp(rate) * torch.sin(turn)), (real, -imag))
        readout = product((self.c[..., 0], self.c[..., 1]), hold)
        scale, dtype = 2 / (real**2 + imag**2), self.c.dtype
        decay = (magnitude * torch.cos(phase)).to(dtype), (magnitude * torch.sin(phase)).to(dtype)
        return decay, ((scale * readout[0]).to(dtype), (scale * readout[1]).to(dtype))


@register_backbone(S4DConfig)
class S4D(DiagonalStateSpace):
    """State: the real and imaginary parts of x, each (batch, width, state_size / 2)."""

    def __init__(self, config: S4DConfig) -> None:
        super().__init__(config)
        self.d = nn.Parameter(torch.randn(config.width))
        self.output = nn.Linear(config.width, 2 * config.width)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        s, after = super().forward(x, state, reset)
        return self._output(s, x), after

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        s, after = super().step(x, state)
        return self._output(s, x), after

    def _output(self, s: Tensor, x: Tensor) -> Tensor:
        return F.glu(self.output(F.gelu(s + self.d * x)), dim=-1)


def _chunk(
    toeplitz: Tensor, decay: ComplexPair, reads: ComplexPair, x: Tensor, state: State, episode: Tensor
) -> tuple[Tensor, State]:
    """A chunk of `forward`: s, (batch, time, width), and the state after it."""
    u, time = x.permute(2, 0, 1).contiguous(), x.shape[1]
    carried = (episode == 0).to(u.dtype)
    # `_causal_product` reads where episodes begin, for which the host would wait on a GPU.
    causal = _causal_product if u.device.type == "cpu" else _causal_sum
    s = causal(u, toeplitz[:, :time, :time], episode)
    before = state[0].transpose(0, 1), state[1].transpose(0, 1)  # (width, batch, pairs)
    for plane, read in zip(before, reads, strict=True):
        s = s + plane @ read[:, 1 : time + 1].transpose(1, 2) * carried
    last = u * (episode == episode[:, -1:])
    added = (last @ weight[:, :time].flip(1) for weight in decay)
    kept = product(before, (decay[0][:, time, None], decay[1][:, time, None]))
    after = tuple((new + old * carried[:, -1:]).transpose(0, 1) for new, old in zip(added, kept, strict=True))
    if s.requires_grad:
        # A batched product handles strided matrices one by one.
        s.register_hook(lambda grad: None if grad is None else grad.contiguous())
    return s.permute(1, 2, 0), after


def _causal_product(u: Tensor, toeplitz: Tensor, episode: Tensor) -> Tensor:
    """sum_{r <= t} toeplitz[t, r] u_r over the steps r of t's own episode, (width, batch, time).

    Every episode of a row is a row of its own in the product, with zeros for the row's other episodes.
    """
    if not episode.any():
        return u @ toeplitz.transpose(1, 2)
    number = torch.arange(int(episode.max()) + 1, device=u.device)
    rows, number = (number <= episode[:, -1:]).nonzero(as_tuple=True)
    inside = (episode[rows] == number.unsqueeze(1)).to(u.dtype)
    products = (u.index_select(1, rows) * inside) @ toeplitz.transpose(1, 2) * inside
    return torch.zeros_like(u).index_add(1, rows, products)


def _causal_sum(u: Tensor, toeplitz: Tensor, episode: Tensor) -> Tensor:
    """`_causal_product` as a sum over lags of masked inputs, whose shapes do not depend on the episodes."""
    width, batch, time = u.shape
    starts = episode.diff(dim=1, prepend=torch.zeros_like(episode[:, :1])) > 0
    kernel, past = toeplitz[:, :, 0].flip(1), u.new_zeros(batch, time - 1, width)
    return convolve(kernel, u.new_zeros(width), u.permute(1, 2, 0), past, starts)[0].permute(2, 0, 1)
