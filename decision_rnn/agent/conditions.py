"""Conditions: the return-to-go, the time to a goal, or none.

A condition reads its values from training data (`from_batch`), updates them while the agent acts (`initial_state`,
`step`) and limits them then (`limit`). An exported policy contains it. A condition is registered here or in a user's
module, which `--plugins` imports.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from decision_rnn.agent.spaces import AgentSpec
from decision_rnn.backbones import State
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import Batch
from decision_rnn.utils.parsing import STRICT, NonNegativeFloat
from decision_rnn.utils.registry import Class, Registry

TIME_LEVELS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
"""The learnt quantile levels of the time to a goal; between them it is interpolated."""
TIMESTEP_SCALE = 1000
"""The divisor of timesteps as inputs of a network."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ConditionConfig:
    """Options that all conditions share.

    Attributes:
        name: The condition's name.
    """

    name: str

    @property
    def limited(self) -> bool:
        """Whether the acting agent's values are limited, so that the target may be `auto`."""
        return False


CONDITIONS: Registry[ConditionConfig] = Registry("condition")


def register_condition(config: type[ConditionConfig]) -> Callable[[Class], Class]:
    """Class decorator: register a condition under the name in its configuration class; see `Registry.register`."""
    return CONDITIONS.register(config)


class Condition(nn.Module, ABC):
    """What the agent is conditioned on, at every step.

    It is created as `Condition(config, spec)`, where `config` is of the class it was registered with and `spec` is an
    `AgentSpec`. Its buffers are stored with the agent's weights.

    Attributes:
        size: The number of values per step; 0 for no condition.
        takes_target: Whether an episode has a target, such as a return.
        needs_adaln: Whether `limit` and `loss` read hidden states, which must not depend on the values then: it enters
            by `agent.conditioning adaln`.
    """

    size: int
    takes_target: ClassVar[bool] = True
    needs_adaln: ClassVar[bool] = False

    @abstractmethod
    def from_batch(self, batch: Batch) -> Tensor:
        """The values in a training batch, (batch, time, size)."""

    @abstractmethod
    def initial_state(self, target: Tensor) -> State:
        """The state before an episode's first step, for targets (batch,)."""

    @abstractmethod
    def step(self, state: State, reward: Tensor, first: Tensor) -> tuple[Tensor, State]:
        """Advance by one step.

        Args:
            state: From `initial_state` or the previous call.
            reward: (batch,), the reward of the previous action.
            first: (batch,) bool, true at an episode's first step, where `reward` is to be ignored.

        Returns:
            The values at this step, (batch, size), and the state for the next call.
        """

    def limit(self, value: Tensor, timestep: Tensor, hidden: Tensor | None) -> Tensor:
        """The values, (..., size), that the acting agent is conditioned on; unchanged by default.

        Args:
            value: From `step`.
            timestep: (...), steps since the episode's start.
            hidden: (..., width), the backbone's output; None if the condition enters by tokens.
        """
        return value

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The loss of what the condition learns from hidden states (batch, time, width), and metrics to log; zero by
        default."""
        return hidden.new_zeros(()), {}

    def normalise(self, value: Tensor) -> Tensor:
        """The values, (..., size), as the network reads them; unchanged by default."""
        return value


@dataclass(frozen=True, kw_only=True, config=STRICT)
class NoConditionConfig(ConditionConfig):
    """No condition: behaviour cloning."""

    name: str = "none"


@register_condition(NoConditionConfig)
class NoCondition(Condition):
    """No condition. State: empty."""

    size = 0
    takes_target = False

    def __init__(self, config: NoConditionConfig, spec: AgentSpec) -> None:
        super().__init__()

    def from_batch(self, batch: Batch) -> Tensor:
        return batch.observation.new_empty(*batch.timestep.shape, 0)

    def initial_state(self, target: Tensor) -> State:
        return ()

    def step(self, state: State, reward: Tensor, first: Tensor) -> tuple[Tensor, State]:
        return reward.new_empty(*reward.shape, 0), ()  # len(reward) would fix the batch size of an export


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ReturnToGoConfig(ConditionConfig):
    """The return-to-go, the undiscounted sum of rewards from this step on, as in the Decision Transformer.

    Attributes:
        rtg_quantile: Limit of the acting agent's return-to-go, as a quantile of the data's returns-to-go over episodes
            weighted by their returns: at 0.8, a fifth of the return in the data was earned in episodes above it. 1 is
            the largest, 0 no limit. See `return_to_go_limits`.
        noise: Standard deviation of the noise added to a segment's returns-to-go in training, the same value at all of
            its steps, in units of the return scale.
    """

    name: str = "return_to_go"
    rtg_quantile: Annotated[float, Field(ge=0, le=1)] = 0.8
    noise: NonNegativeFloat = 0.0

    @property
    def limited(self) -> bool:
        return self.rtg_quantile > 0


@register_condition(ReturnToGoConfig)
class ReturnToGo(Condition):
    """The target return less the rewards so far. State: target and return-to-go, each (batch,)."""

    size = 1
    scale: Tensor
    acting_limit: Tensor | None
    training_limit: Tensor | None

    def __init__(self, config: ReturnToGoConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.noise = config.noise
        self.register_buffer("scale", torch.tensor(float(spec.return_scale)))
        self.register_buffer("acting_limit", None if spec.rtg_limit is None else spec.rtg_limit.float())
        training_limit = None if spec.training_rtg_limit is None else spec.training_rtg_limit.float()
        self.register_buffer("training_limit", training_limit, persistent=False)

    def from_batch(self, batch: Batch) -> Tensor:
        value = batch.return_to_go
        if self.training and self.noise:
            value = value + self.noise * (torch.randn_like(value[:, :1]) * self.scale)
        return _clip_at_timestep(value, self.training_limit, batch.timestep)

    def initial_state(self, target: Tensor) -> State:
        target = target.to(self.scale)
        return target, target

    def step(self, state: State, reward: Tensor, first: Tensor) -> tuple[Tensor, State]:
        target, return_to_go = state
        return_to_go = torch.where(first, target, return_to_go - reward)
        return return_to_go.unsqueeze(-1), (target, return_to_go)

    def limit(self, value: Tensor, timestep: Tensor, hidden: Tensor | None) -> Tensor:
        return _clip_at_timestep(value, self.acting_limit, timestep)

    def normalise(self, value: Tensor) -> Tensor:
        return value / self.scale


def _clip_at_timestep(value: Tensor, limit: Tensor | None, timestep: Tensor) -> Tensor:
    """Values (..., 1), at most the limit (timesteps,) at their timestep (...)."""
    if limit is None:
        return value
    return torch.minimum(value, F.embedding(timestep.clamp_max(len(limit) - 1), limit[:, None]))


def return_to_go_limits(store: EpisodeStore, quantile: float) -> tuple[np.ndarray, np.ndarray]:
    """The largest return-to-go of the acting agent, and of training data, from a quantile q of a dataset.

    Acting, the limit is (1,), the largest over timesteps of the q quantile of the returns-to-go of the episodes that
    last that long, weighted by their returns. It is the same at all timesteps: late ones have only the few episodes
    that are about to end, and a lower limit would make the agent end its own.

    Training data are limited to a little more, so that a part of the best of them shows what to do at the limit. That
    limit is (longest episode,), the largest of three at each timestep: the weighted quantile (1 + q) / 2, the
    unweighted quantile 1 - 0.3 (1 - q), and the weighted q quantiles of the timesteps to come, since the first steps of
    the few long episodes of a replay buffer count among those of the many short ones.

    Where returns-to-go rise over time, as where rewards are costs, both limits are those of each timestep.

    Returns:
        Both limits, float64.
    """
    to_go, returns, lengths = store.returns_to_go(), store.episode_returns, store.episode_lengths
    order = np.argsort(-lengths, kind="stable")
    starts, lengths, returns = store.offsets[:-1][order], lengths[order], returns[order]
    counts = np.searchsorted(-lengths, -np.arange(lengths[0]), side="left")  # episodes longer than t
    by_timestep = [to_go[starts[:count] + t] for t, count in enumerate(counts)]
    # Returns below zero weigh nothing, unless no return is above: then the weight is how far one is above the worst.
    weights = np.maximum(returns if returns.max() > 0 else returns - returns.min(), np.finfo(np.float32).tiny)

    def quantiles(level: float, weights: np.ndarray) -> np.ndarray:
        return np.array([weighted_quantile(values, weights[: len(values)], level) for values in by_timestep])

    acting, training = quantiles(quantile, weights), quantiles((1 + quantile) / 2, weights)
    training = np.maximum(training, quantiles(1 - 0.3 * (1 - quantile), np.ones(len(weights))))
    if acting[-1] > acting[0]:
        return acting, training
    return acting.max(keepdims=True), np.maximum(training, np.maximum.accumulate(acting[::-1])[::-1])


def weighted_quantile(values: np.ndarray, weights: np.ndarray, level: float) -> float:
    """The weighted quantile between the smallest and the largest value; with equal weights, `np.quantile`."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - weights[order]
    return float(np.interp(level * below[-1], below, values[order]))


@dataclass(frozen=True, kw_only=True, config=STRICT)
class TimeToGoalConfig(ConditionConfig):
    """The time to the goal, for goals relabelled in hindsight.

    Attributes:
        time_quantile: Limit of the acting agent's time to the goal: the agent is given at most this quantile of the
            time in the data, predicted from its history and learnt with it. From 0.005 to 0.5.
    """

    name: str = "time_to_goal"
    time_quantile: Annotated[float, Field(ge=TIME_LEVELS[-1], le=TIME_LEVELS[0])] = 0.01

    @property
    def limited(self) -> bool:
        return True


@register_condition(TimeToGoalConfig)
class TimeToGoal(Condition):
    """Minus the number of steps to the goal, so that more is better, as for returns. State: target and value, each
    (batch,).

    The acting agent's value is at most the predicted `time_quantile` of the time to the goal, as an upper expectile of
    the return in Zhuang et al., "Reinformer" (2024). The quantiles, of all `TIME_LEVELS`, are learnt by quantile
    regression (Koenker & Bassett 1978) from hidden states that do not depend on the value.
    """

    size = 1
    needs_adaln = True
    scale: Tensor
    levels: Tensor

    def __init__(self, config: TimeToGoalConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.time_quantile, width = config.time_quantile, spec.width
        self.register_buffer("scale", torch.tensor(float(spec.return_scale)))
        # Of the value, which is minus the time; rounded, since 1 - 0.3 is not 0.7.
        levels = torch.tensor([round(1 - level, 6) for level in TIME_LEVELS])
        self.register_buffer("levels", levels, persistent=False)
        self.network = nn.Sequential(
            nn.Linear(width + 2, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, len(TIME_LEVELS)),
        )

    def from_batch(self, batch: Batch) -> Tensor:
        return batch.return_to_go

    def initial_state(self, target: Tensor) -> State:
        target = target.to(self.scale)
        return target, target

    def step(self, state: State, reward: Tensor, first: Tensor) -> tuple[Tensor, State]:
        target, value = state
        value = torch.where(first, target, value + 1)
        return value.unsqueeze(-1), (target, value)

    def quantiles(self, hidden: Tensor, timestep: Tensor) -> Tensor:
        """The value's quantiles of all levels, rising, (..., levels), in units of the scale.

        Args:
            hidden: (..., width).
            timestep: (...), steps since the episode's start.
        """
        time = timestep.unsqueeze(-1).to(hidden.dtype)
        clock = torch.cat([time / TIMESTEP_SCALE, torch.log1p(time) / 7], dim=-1)
        output = self.network(torch.cat([hidden, clock], dim=-1))
        return torch.cat([output[..., :1], F.softplus(output[..., 1:])], dim=-1).cumsum(-1)

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, Tensor]]:
        error = batch.return_to_go / self.scale - self.quantiles(hidden, batch.timestep)
        loss = torch.maximum(self.levels * error, (self.levels - 1) * error).mean()
        return loss, {"quantile_loss": loss}

    def limit(self, value: Tensor, timestep: Tensor, hidden: Tensor | None) -> Tensor:
        assert hidden is not None
        above = next(i for i in range(1, len(TIME_LEVELS)) if self.time_quantile >= TIME_LEVELS[i])
        share = (TIME_LEVELS[above - 1] - self.time_quantile) / (TIME_LEVELS[above - 1] - TIME_LEVELS[above])
        lower, upper = self.quantiles(hidden, timestep)[..., above - 1 : above + 1].split(1, dim=-1)
        return torch.minimum(value, self.scale * (lower + share * (upper - lower)))

    def normalise(self, value: Tensor) -> Tensor:
        return value / self.scale
