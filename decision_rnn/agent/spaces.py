"""From spaces to networks: the encoder of observations and, for each kind of action, a scale and a head.

Observations and actions are flat rows, as `layouts.Layout` lays them out. A new kind of action is a class of each here
and a line in `scale_of` and `head_of`.
"""

from collections.abc import Sequence

import gymnasium
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.agent.spec import AgentSpec
from decision_rnn.data.layouts import Layout
from decision_rnn.utils.errors import InputError, one_line

MIN_STD = 1e-3
"""Smallest scale of an observation entry, so that entries constant in the data do not blow up small deviations."""


class Encoder(nn.Module):
    """The entries of an observation that the agent sees, normalised: (..., entries) -> (..., features)."""

    index: Tensor | None
    mean: Tensor
    std: Tensor

    def __init__(self, spec: AgentSpec) -> None:
        super().__init__()
        self.features = len(spec.observation_mean)
        self.register_buffer("index", spec.observation_index)
        self.register_buffer("mean", spec.observation_mean.float())
        self.register_buffer("std", spec.observation_std.float().clamp_min(MIN_STD))

    def forward(self, observation: Tensor) -> Tensor:
        if self.index is not None:
            observation = observation.index_select(-1, self.index)
        return (observation - self.mean) / self.std


class BoxScale(nn.Module):
    """Actions within [-1, 1], as heads and losses have them, as actions within a bounded Box, and back. An entry whose
    bounds are equal is held there, and is 0 for heads and losses."""

    low: Tensor
    high: Tensor
    center: Tensor
    radius: Tensor

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        super().__init__()
        low, high = (torch.from_numpy(bound.astype("float32").ravel()) for bound in (space.low, space.high))
        if not (high - low).isfinite().all():
            raise InputError(
                f"the actions are {one_line(space)}: every entry needs a lower and an upper bound that are finite"
            )
        # Not stored with the weights: a checkpoint's description has the space.
        self.register_buffer("low", low, persistent=False)
        self.register_buffer("high", high, persistent=False)
        self.register_buffer("center", low / 2 + high / 2, persistent=False)
        self.register_buffer("radius", torch.where(low < high, high / 2 - low / 2, 1.0), persistent=False)
        self.unit = bool((low == -1).all() and (high == 1).all())  # as most are: two operations less per step

    def forward(self, action: Tensor) -> Tensor:
        """From [-1, 1] to the box; what is outside is clipped to it."""
        return action.clamp(-1, 1) if self.unit else (action * self.radius + self.center).clamp(self.low, self.high)

    def normalise(self, action: Tensor) -> Tensor:
        """From the box to [-1, 1]; what is outside is clipped to it, as environments do."""
        return ((action - self.center) / self.radius).clamp(-1, 1)


class OneHotScale(nn.Module):
    """One-hot vectors of discrete actions, which need no scale."""

    radius: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("radius", torch.ones(size), persistent=False)

    def forward(self, action: Tensor) -> Tensor:
        return action

    def normalise(self, action: Tensor) -> Tensor:
        return action


class Head(nn.Linear):
    """From hidden states to actions, as losses have them: (..., width) -> (..., action_dim)."""

    samples: bool = False
    """Whether `sample` is defined."""

    def sample(self, hidden: Tensor) -> Tensor:
        """Actions drawn with their probabilities."""
        raise NotImplementedError

    def loss(self, hidden: Tensor, action: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the data's actions, a mean, and metrics to log."""
        raise NotImplementedError


class TanhHead(Head):
    """Actions tanh(W h + b) of a Box within [-1, 1]: (..., width) -> (..., action_dim)."""

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.tanh(super().forward(hidden))

    def loss(self, hidden: Tensor, action: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The mean squared error of the actions, and no metrics."""
        return F.mse_loss(self(hidden), action), {}


class CategoricalHead(Head):
    """Discrete actions with the probabilities softmax(W h + b): (..., width) -> one-hot vectors (..., action_dim).

    Args:
        width: Channels of the hidden states.
        choices: The number of choices of each discrete entry of an action.
    """

    samples = True

    def __init__(self, width: int, choices: Sequence[int]) -> None:
        super().__init__(width, sum(choices))
        self.choices = list(choices)

    def forward(self, hidden: Tensor) -> Tensor:
        """The most probable actions."""
        return self._largest(super().forward(hidden))

    def sample(self, hidden: Tensor) -> Tensor:
        return self._largest(with_gumbel_noise(super().forward(hidden)))

    def loss(self, hidden: Tensor, action: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The cross-entropy, summed over the entries of an action, and the share of actions that are most probable."""
        logits = super().forward(hidden)
        entries = list(zip(logits.split(self.choices, -1), action.split(self.choices, -1), strict=True))
        losses = [-(taken * entry.log_softmax(-1)).sum(-1).mean() for entry, taken in entries]
        hits = [entry.argmax(-1) == taken.argmax(-1) for entry, taken in entries]
        return torch.stack(losses).sum(), {"accuracy": torch.stack(hits).all(0).float().mean()}

    def _largest(self, logits: Tensor) -> Tensor:
        """1 at the largest logit of each entry of an action, 0 elsewhere."""
        return torch.cat([is_largest(entry) for entry in logits.split(self.choices, -1)], dim=-1).to(logits.dtype)


def is_largest(logits: Tensor) -> Tensor:
    """Whether each of the logits, (..., choices), is the largest, bool of their shape: of equal ones, one is."""
    # Comparing indices, unlike F.one_hot and Tensor.gather, exports to ONNX for any batch size.
    return logits.argmax(-1, keepdim=True) == torch.arange(logits.shape[-1], device=logits.device)


def with_gumbel_noise(logits: Tensor) -> Tensor:
    """Logits of which each is the largest with the probability that they give it, softmax(logits)."""
    return logits - torch.empty_like(logits).exponential_().log()


def scale_of(space: gymnasium.Space) -> BoxScale | OneHotScale:
    """The scale of an action space; InputError if there is none for it."""
    size = Layout.of_actions(space).size
    return BoxScale(space) if isinstance(space, gymnasium.spaces.Box) else OneHotScale(size)


def head_of(spec: AgentSpec) -> Head:
    """The head of the action space; InputError if there is none for it."""
    layout = Layout.of_actions(spec.action_space)
    choices = layout.parts[0].choices
    return CategoricalHead(spec.width, choices) if choices else TanhHead(spec.width, layout.size)


def box_of(spec: AgentSpec, objective: str) -> gymnasium.spaces.Box:
    """The action space of an objective that acts in boxes alone; InputError for other spaces."""
    if not isinstance(spec.action_space, gymnasium.spaces.Box):
        raise InputError(
            f"objective {objective}: the actions are {spec.action_space}, where it needs a Box: choose objective mse"
        )
    return spec.action_space
