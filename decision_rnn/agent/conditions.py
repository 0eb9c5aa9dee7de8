"""What an agent is conditioned on: the return-to-go, or nothing.

A condition says what a slice of training data shows (`from_batch`), how that moves while the agent acts
(`initial_state`, `advance`) and what limits it then (`limit`). The agent embeds it as a token or as a part of one, and
an exported policy contains it. Conditions are defined here or in a user's module, which `--plugins` imports.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from decision_rnn.agent.reach import LEVELS, ReturnInReach
from decision_rnn.backbones import State
from decision_rnn.data.stream import Batch
from decision_rnn.errors import InputError
from decision_rnn.registry import Class, Registry

if TYPE_CHECKING:
    from decision_rnn.agent.spec import AgentSpec


@dataclass(frozen=True, kw_only=True)
class ConditionConfig:
    """The part of a condition's configuration that all conditions share.

    Attributes:
        name: The condition's name.
    """

    name: str


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

    def accept(self, state: State, proposed: Tensor) -> State:
        """Take over the values, (batch, size), that the objective proposes (`Objective.propose`).

        Raises:
            NotImplementedError: By default; an objective that proposes values needs a condition that accepts them.
        """
        raise NotImplementedError(f"{type(self).__name__} accepts no values from an objective")


CONDITIONS: Registry[Condition, ConditionConfig] = Registry("condition")


def register_condition(config: type[ConditionConfig]) -> Callable[[Class], Class]:
    """Class decorator: register a condition under the name in its configuration class; see `Registry.register`."""
    return CONDITIONS.register(config)


@dataclass(frozen=True, kw_only=True)
class NoConditionConfig(ConditionConfig):
    """No condition: the agent is trained by behaviour cloning."""

    name: str = "none"


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


REACH, RTG_CAP = 0.99, 0.88
"""The defaults of `condition.reach` and of `condition.rtg_cap`, of which only one applies."""


@dataclass(frozen=True, kw_only=True)
class ReturnToGoConfig(ConditionConfig):
    """The return-to-go, the undiscounted sum of rewards from this step on, as in the Decision Transformer.

    Attributes:
        reach: Largest return-to-go that the agent sees when it acts, as a quantile of what it could still earn in the
            data, judged from what it has seen: `agent.reach.ReturnInReach`, which is learnt with the agent and needs
            `agent.condition_at head`. It is also what the target `best` asks for. From 0.5 to 0.995; 0: none. If left
            out, 0.99 with `agent.condition_at head`, otherwise 0.
        rtg_cap: Largest return-to-go that the acting agent sees, as a quantile q of the data's: the largest, over
            timesteps, of the q quantile over the episodes that last that long. It is the same at all timesteps: at late
            ones the quantile is that of episodes about to end, and asking for so little ends the agent's own. Only
            where returns-to-go rise over time, since rewards are costs, is it that of the timestep. Training shows what
            exceeds the (1 + q) / 2 quantile of its timestep as that quantile, so that the cap is inside what it shows,
            and a part of the best data shows what to do at it. 1: the largest; 0: no cap. If left out, 0.88 where
            `reach` is 0, otherwise 0.
        noise: Standard deviation of the noise added to a slice's returns-to-go in training, the same value at all of
            its steps, in units of the return scale.
    """

    name: str = "return_to_go"
    reach: float | None = None
    rtg_cap: float | None = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        if not self.noise >= 0:  # also rejects NaN
            raise InputError(f"condition.noise is {self.noise}: it must be at least 0")
        if self.reach and not LEVELS[0] <= self.reach <= LEVELS[-1]:  # also rejects NaN
            raise InputError(
                f"condition.reach is {self.reach}: it must be from {LEVELS[0]} to {LEVELS[-1]}, or 0 for no limit"
            )
        if self.rtg_cap is not None and not 0 <= self.rtg_cap <= 1:
            raise InputError(
                f"condition.rtg_cap is {self.rtg_cap}: it must be from 0, which is no cap, to 1, the largest"
            )

    def completed(self, at_head: bool) -> "ReturnToGoConfig":
        """With values for what was left out; InputError if what is in reach cannot be judged, `at_head` or not."""
        if self.reach and not at_head:
            raise InputError(
                f"condition.reach {self.reach} is judged from a state that must not know what is asked for: set "
                "agent.condition_at head, or leave condition.reach out"
            )
        reach = (REACH if at_head else 0.0) if self.reach is None else self.reach
        cap = (0.0 if reach else RTG_CAP) if self.rtg_cap is None else self.rtg_cap
        return replace(self, reach=reach, rtg_cap=cap)

    @property
    def limited(self) -> bool:
        """Whether what the acting agent sees is limited, so that it may be asked for `best`."""
        return bool(self.reach or self.rtg_cap)


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

    def accept(self, state: State, proposed: Tensor) -> State:
        return state[0], proposed.squeeze(-1)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        if self.cap is not None and prefix + "cap" in state_dict:
            self.cap = torch.empty_like(state_dict[prefix + "cap"], device=self.cap.device)  # of 0.2: another length
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _capped(value: Tensor, cap: Tensor | None, timestep: Tensor) -> Tensor:
    """Values (..., 1) that are at most the cap at their timestep, (...)."""
    return value if cap is None else torch.minimum(value, cap[timestep.clamp_max(len(cap) - 1)].unsqueeze(-1))
