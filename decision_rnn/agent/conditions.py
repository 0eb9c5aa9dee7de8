"""What an agent is conditioned on: the return-to-go, or nothing.

A condition says what a slice of training data shows (`from_batch`), how that moves while the agent acts
(`initial_state`, `advance`) and what limits it then (`limit`). The agent embeds it as a token or as a part of one, and
an exported policy contains it. Conditions are defined here or in a user's module, which `--plugins` imports.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.agent.config import CONDITIONS as CONDITIONS
from decision_rnn.agent.config import ConditionConfig as ConditionConfig
from decision_rnn.agent.config import NoConditionConfig, ReturnToGoConfig, register_condition
from decision_rnn.agent.reach import ReturnInReach
from decision_rnn.backbones import State
from decision_rnn.data.stream import Batch

if TYPE_CHECKING:
    from decision_rnn.agent.spec import AgentSpec


class Condition(nn.Module, ABC):
    """What the agent is asked for, at every step.

    It is created as `Condition(config, spec)`, where `config` is of the class it was registered with and `spec` is an
    `AgentSpec`. Its buffers are stored with the agent's weights.

    Attributes:
        size: The number of values per step; 0 for no condition.
        takes_target: Whether episodes begin with a target, such as a return, that the user gives.
    """

    size: int
    takes_target: ClassVar[bool] = True

    @abstractmethod
    def from_batch(self, batch: Batch) -> Tensor:
        """The values that a batch of slices shows, (batch, time, size), in the environment's units."""

    @abstractmethod
    def initial_state(self, target: Tensor) -> State:
        """The state before an episode's first step, for targets (batch,)."""

    @abstractmethod
    def restart(self, state: State) -> State:
        """The state before the first step of another episode with the same target."""

    @abstractmethod
    def advance(self, state: State, reward: Tensor, first: Tensor) -> tuple[Tensor, State]:
        """Move one step on.

        Args:
            state: From `initial_state` or the previous call.
            reward: (batch,), the reward of the previous action.
            first: (batch,) bool, true at an episode's first step, where `reward` is to be ignored.

        Returns:
            The values at this step, (batch, size), and the state for the next call.
        """

    def limit(self, value: Tensor, timestep: Tensor, hidden: Tensor | None) -> Tensor:
        """The values, (..., size), as the acting agent sees them; unchanged by default.

        Args:
            value: From `advance`.
            timestep: (...), steps since the episode's start.
            hidden: (..., width), the backbone's output, which does not depend on the values; None unless the condition
                enters at the head.
        """
        return value

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The loss of what the condition itself learns, from hidden states (batch, time, width), and metrics to log;
        nothing by default."""
        return hidden.new_zeros(()), {}

    def normalise(self, value: Tensor) -> Tensor:
        """The values, (..., size), as the network reads them; unchanged by default."""
        return value


@register_condition(NoConditionConfig)
class NoCondition(Condition):
    """State: empty."""

    size = 0
    takes_target = False

    def __init__(self, config: NoConditionConfig, spec: "AgentSpec") -> None:
        super().__init__()

    def from_batch(self, batch: Batch) -> Tensor:
        return batch.observation.new_empty(*batch.timestep.shape, 0)

    def initial_state(self, target: Tensor) -> State:
        return ()

    def restart(self, state: State) -> State:
        return ()

    def advance(self, state: State, reward: Tensor, first: Tensor) -> tuple[Tensor, State]:
        return reward.new_empty(*reward.shape, 0), ()  # len(reward) would fix the batch size of an export


@register_condition(ReturnToGoConfig)
class ReturnToGo(Condition):
    """The target return less the rewards so far. State: target and return-to-go, each (batch,)."""

    size = 1
    scale: Tensor
    cap: Tensor | None
    training_cap: Tensor | None

    def __init__(self, config: ReturnToGoConfig, spec: "AgentSpec") -> None:
        super().__init__()
        self.noise = config.noise
        self.register_buffer("scale", torch.tensor(float(spec.return_scale)))
        self.level = config.reach or 0.0  # 0: what is in reach, though learnt, limits nothing
        self.reach = ReturnInReach(spec.width) if config.reach else None
        # (timesteps,), with the last value for all later timesteps.
        self.register_buffer("cap", None if spec.rtg_cap is None else spec.rtg_cap.float())
        training = None if spec.training_rtg_cap is None else spec.training_rtg_cap.float()
        self.register_buffer("training_cap", training, persistent=False)

    @property
    def limits(self) -> bool:
        """Whether the values that the acting agent sees are limited."""
        return self.cap is not None or bool(self.reach and self.level)

    def from_batch(self, batch: Batch) -> Tensor:
        value = batch.return_to_go
        if self.training and self.noise:
            value = value + self.noise * (torch.randn_like(value[:, :1]) * self.scale)
        return _capped(value, self.training_cap, batch.timestep)

    def initial_state(self, target: Tensor) -> State:
        target = target.to(self.scale)
        return target, target

    def restart(self, state: State) -> State:
        return state[0], state[0]

    def advance(self, state: State, reward: Tensor, first: Tensor) -> tuple[Tensor, State]:
        target, return_to_go = state
        return_to_go = torch.where(first, target, return_to_go - reward)
        return return_to_go.unsqueeze(-1), (target, return_to_go)

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, Tensor]]:
        if self.reach is None:
            return super().loss(hidden, batch)
        loss = self.reach.loss(hidden, batch.timestep, batch.return_to_go / self.scale)
        return loss, {"reach_loss": loss}

    def limit(self, value: Tensor, timestep: Tensor, hidden: Tensor | None) -> Tensor:
        if self.reach is not None and self.level and hidden is not None:
            value = torch.minimum(value, self.scale * self.reach(hidden, timestep, self.level))
        return _capped(value, self.cap, timestep)

    def normalise(self, value: Tensor) -> Tensor:
        return value / self.scale

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        if self.cap is not None and prefix + "cap" in state_dict:
            self.cap = torch.empty_like(state_dict[prefix + "cap"], device=self.cap.device)  # of 0.2: another length
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _capped(value: Tensor, cap: Tensor | None, timestep: Tensor) -> Tensor:
    """Values (..., 1) that are at most the cap at their timestep, (...)."""
    return value if cap is None else torch.minimum(value, F.embedding(timestep.clamp_max(len(cap) - 1), cap[:, None]))
