"""S4D, the diagonal state space: every channel drives its own complex states with constant decays.

Gu et al., "On the Parameterization and Initialization of Diagonal State Space Models" (2022), sections 3 and 4; the
layer of Decision S4 (Bar David et al. 2023) with a diagonal state matrix. For each of the `width` channels u, with
state_size / 2 complex states (the conjugate half is implied):

    A = -exp(a) + i b,   x_t = exp(dt A) x_{t-1} + (exp(dt A) - 1) / A * u_t          zero-order hold, B = 1
    s_t = 2 Re(C x_t) + D u_t
    y_t = GLU(W GELU(s_t))

Initialisations (section 4): `lin` A_n = -1/2 + i pi n;  `inv` A_n = -1/2 + i N / pi (N / (2n + 1) - 1);  `real`
A_n = -(n + 1). dt is initialised log-uniformly between dt_min and dt_max.

`forward` is the paper's convolution within blocks of `CHUNK` steps, without storing the states, and the recurrence
from block to block: the loop of recurrence.py over 32 complex states a channel takes ten times as long.

What differs: (exp(dt A) - 1) / A is multiplied into C instead of the input (as in S4's own convolution), so that the
state differs by a constant factor. `real` is real only at the start.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, SequenceMixer, State, register
from decision_rnn.backbones.ops.segments import full_precision
from decision_rnn.backbones.resets import Resets

CHUNK = 64

Planes = tuple[Tensor, Tensor]
"""The real and imaginary parts of a complex tensor."""


@dataclass(frozen=True, kw_only=True)
class S4DConfig(BackboneConfig):
    """S4D, "On the Parameterization and Initialization of Diagonal State Space Models".

    Attributes:
        state_size: Number of states of every channel, two for each stored complex number.
        start: Initialisation of A: `lin`, `inv` or `real`.
        dt_min: Smallest initial step size.
        dt_max: Largest initial step size.
    """

    name: str = "s4d"
    state_size: int = 64
    start: Literal["lin", "inv", "real"] = "lin"
    dt_min: float = 1e-3
    dt_max: float = 1e-1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.state_size < 2 or self.state_size % 2:
            raise ValueError(f"backbone.state_size {self.state_size} must be even and at least 2")
        if self.start not in ("lin", "inv", "real"):
            raise ValueError(f"backbone.start {self.start!r} must be lin, inv or real")
        if not 0 < self.dt_min <= self.dt_max:
            raise ValueError(
                f"backbone.dt_min {self.dt_min} and backbone.dt_max {self.dt_max} must be increasing and above 0"
            )


@register(S4DConfig)
class S4D(SequenceMixer):
    """State: the real and imaginary parts of x, each (batch, width, state_size / 2)."""

    forgets_slowly = True

    def __init__(self, config: S4DConfig) -> None:
        super().__init__()
        width, pairs = config.width, config.state_size // 2
        n = torch.arange(pairs)
        real, imag = {
            "lin": (torch.full((pairs,), 0.5), math.pi * n),
            "inv": (torch.full((pairs,), 0.5), 2 * pairs / math.pi * (2 * pairs / (2 * n + 1) - 1)),
            "real": (n + 1.0, torch.zeros(pairs)),
        }[config.start]
        self.dt_log = nn.Parameter(torch.empty(width).uniform_(math.log(config.dt_min), math.log(config.dt_max)))
        self.a_log = nn.Parameter(real.log().repeat(width, 1))
        self.a_imag = nn.Parameter(imag.repeat(width, 1))
        self.c = nn.Parameter(torch.randn(width, pairs, 2) * 0.5**0.5)
        self.d = nn.Parameter(torch.randn(width))
        self.output = nn.Linear(width, 2 * width)

    def initial_state(self, batch_size: int) -> State:
        zeros = self.a_log.new_zeros(batch_size, *self.a_log.shape)
        return zeros, zeros.clone()

    def forward(self, x: Tensor, state: State | None = None, reset: Resets | None = None) -> tuple[Tensor, State]:
        mask = None if reset is None else reset.mask
        before = self.initial_state(len(x)) if state is None else state
        s, after = full_precision(lambda x, state: self._convolve(x, state, mask), x, before)
        return self._output(s, x), after

    def _convolve(self, x: Tensor, state: State, reset: Tensor | None) -> tuple[Tensor, State]:
        """s without D u, (batch, time, width), and the state after it."""
        # Every episode that begins in a block takes a row of the block's length, so blocks with resets are shorter.
        chunk = CHUNK if reset is None else CHUNK // 2
        length = min(x.shape[1], chunk)
        decay, (out_real, out_imag) = self._discrete(torch.arange(length + 1, device=x.device))
        # Contribution to s of a state from that many steps ago: Re(readout * decay * state).
        read_real, read_imag = _product((out_real.unsqueeze(1), out_imag.unsqueeze(1)), decay)
        read_imag = -read_imag
        kernel = read_real[:, :length].sum(-1)
        toeplitz = F.pad(kernel.flip(1), (0, length - 1)).unfold(1, length, 1).flip(1)  # (width, to, from)

        def block(x: Tensor, state: Planes, begins: Tensor | None) -> tuple[Tensor, Planes]:
            """One block. x: (batch, time, width); the parts of the state: (width, batch, pairs)."""
            time = x.shape[1]
            episodes = None if begins is None or not begins.any() else _Episodes(begins)
            if episodes:
                x = episodes.part(x)
                state = _forget(state, episodes.at_once)
            u = x.permute(2, 0, 1).contiguous()
            s = u @ toeplitz[:, :time, :time].transpose(1, 2)
            kept = _product(state, (decay[0][:, time, None], decay[1][:, time, None]))
            carried_real, carried_imag = (
                plane @ read[:, 1 : time + 1].transpose(1, 2)
                for plane, read in zip(state, (read_real, read_imag), strict=True)
            )
            carried = carried_real + carried_imag
            if episodes:
                s = s.index_add(1, episodes.first, carried)
                u = u.index_select(1, episodes.last)
                kept = _forget(kept, episodes.over)
            else:
                s = s + carried
            real, imag = (plane + u @ weight[:, :time].flip(1) for plane, weight in zip(kept, decay, strict=True))
            if s.requires_grad:
                s.register_hook(Tensor.contiguous)  # a batched product handles strided matrices one by one
            s = s.permute(1, 2, 0)
            return episodes.join(s) if episodes else s, (real, imag)

        real, imag = (part.transpose(0, 1).contiguous() for part in state)
        outputs = []
        for i, piece in enumerate(x.split(chunk, dim=1)):
            begins = None if reset is None else reset[:, i * chunk : (i + 1) * chunk]
            s, (real, imag) = block(piece, (real, imag), begins)
            outputs.append(s)
        return torch.cat(outputs, dim=1), (real.transpose(0, 1), imag.transpose(0, 1))

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        (decay_real, decay_imag), (out_real, out_imag) = self._discrete(torch.ones(1, device=x.device))
        real, imag = _product((state[0], state[1]), (decay_real[:, 0], decay_imag[:, 0]))
        real = real + x.to(real.dtype).unsqueeze(-1)
        return self._output((real * out_real - imag * out_imag).sum(-1), x), (real, imag)

    def recurrent_parameters(self) -> Iterable[nn.Parameter]:
        return self.dt_log, self.a_log, self.a_imag

    def recurrent_learning_rate(self, learning_rate: float) -> float:
        """At most 1e-3, as in the authors' code (example.py of state-spaces/s4)."""
        return min(learning_rate, 1e-3)

    def _discrete(self, age: Tensor) -> tuple[Planes, Planes]:
        """exp(age dt A), (width, ages, pairs), and 2 C (exp(dt A) - 1) / A, (width, pairs)."""
        # In float64: age * dt * imag may be hundreds of radians, of which float32 keeps five digits.
        dt, real, imag = torch.exp(self.dt_log.double())[:, None], -torch.exp(self.a_log.double()), self.a_imag.double()
        rate, turn = dt * real, dt * imag
        age = age[:, None].double()
        magnitude, phase = torch.exp(age * rate.unsqueeze(1)), age * turn.unsqueeze(1)
        # exp(dt A) - 1 without cancellation at small dt: cos - 1 = -2 sin^2(phase / 2).
        less_one = torch.expm1(rate) * torch.cos(turn) - 2 * torch.sin(turn / 2) ** 2
        hold = _product((less_one, torch.exp(rate) * torch.sin(turn)), (real, -imag))
        readout = _product((self.c[..., 0], self.c[..., 1]), hold)
        scale = 2 / (real**2 + imag**2)
        decay = (magnitude * torch.cos(phase)).to(self.c.dtype), (magnitude * torch.sin(phase)).to(self.c.dtype)
        return decay, ((scale * readout[0]).to(self.c.dtype), (scale * readout[1]).to(self.c.dtype))

    def _output(self, s: Tensor, x: Tensor) -> Tensor:
        return F.glu(self.output(F.gelu(s + self.d * x)), dim=-1)


def _product(a: Planes, b: Planes) -> Planes:
    """The product of complex numbers."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _forget(state: Planes, rows: Tensor) -> Planes:
    """The parts of a state, (width, batch, pairs), set to zero in those rows of the batch."""
    real, imag = (plane.index_fill(1, rows, 0) for plane in state)
    return real, imag


class _Episodes:
    """A block of time split so that every episode has its own row, zero at the steps of others.

    Attributes:
        first: (batch,), the row of the steps before the first reset of each batch row; empty if it starts with one.
        last: (batch,), the row of each batch row's last episode.
        at_once: The batch rows in which an episode begins at the first step.
        over: The batch rows in which any episode begins.
    """

    def __init__(self, begins: Tensor) -> None:
        """`begins`: (batch, time) bool."""
        count = begins.sum(1)
        self.last = torch.arange(len(begins), device=begins.device) + count.cumsum(0)
        self.first = self.last - count
        self.at_once, self.over = begins[:, 0].nonzero().flatten(), count.nonzero().flatten()
        row, time = self.first[:, None] + begins.cumsum(1), torch.arange(begins.shape[1], device=begins.device)
        self._rows, self._places = len(begins) + len(begins.nonzero()), (row * len(time) + time).flatten()

    def part(self, x: Tensor) -> Tensor:
        """(batch, time, width) -> (rows, time, width)."""
        apart = x.new_zeros(self._rows * x.shape[1], x.shape[2]).index_copy(0, self._places, x.flatten(0, 1))
        return apart.view(self._rows, *x.shape[1:])

    def join(self, x: Tensor) -> Tensor:
        """(rows, time, width) -> (batch, time, width): every step from its episode's row."""
        return x.reshape(-1, x.shape[2]).index_select(0, self._places).view(len(self.first), *x.shape[1:])
