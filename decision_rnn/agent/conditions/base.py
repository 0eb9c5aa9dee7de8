"""The interface of a condition, and the absence of one.

A condition reads its values from training data (`from_batch`), updates them while the agent acts (`initial_state`,
`step`) and limits them then (`limit`). An exported policy contains it. A condition is registered here or in a user's
module, which `--plugins` imports.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor, nn

from decision_rnn.agent.spaces import AgentSpec
from decision_rnn.backbones import State
from decision_rnn.data.stream import Batch
from decision_rnn.utils.parsing import NonNegativeFloat, config_dataclass
from decision_rnn.utils.registry import Class, ClassRegistry


@config_dataclass
class ConditionConfig:
    """Options that all conditions share.

    Attributes:
        name: The condition's name.
        dropout: Share of segments that are trained without the condition, for guidance, such as 0.1. It needs
            `agent.conditioning adaln`.
        guidance: Weight w of classifier-free guidance (CFGRL, arXiv 2505.23458): the agent acts by a policy
            proportional to p(a) (p(a | condition) / p(a))^w. Needs `condition.dropout` if it is not 1.
        takes_target: Whether an episode has a target, such as a return.
        reads_reward: Whether `step` reads rewards.
        needs_adaln: Whether `limit` and `loss` read hidden states. These must then not depend on the condition, which
            needs `agent.conditioning adaln`.
        adaln_layers: Blocks of MLPs through which hidden states go together with the condition: more than 0 where it
            decides which parts of an observation matter, such as the position of the object to be moved.
        acting: The options that only change how a trained agent acts, so that `evaluate` may set them.
    """

    takes_target: ClassVar[bool] = True
    reads_reward: ClassVar[bool] = True
    needs_adaln: ClassVar[bool] = False
    adaln_layers: ClassVar[int] = 0
    acting: ClassVar[tuple[str, ...]] = ("guidance",)
    name: str
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    guidance: NonNegativeFloat = 1.0

    @property
    def limited(self) -> bool:
        """Whether the acting agent's values are limited, so that the target may be `auto`."""
        return False


CONDITIONS: ClassRegistry[ConditionConfig] = ClassRegistry("condition")


def register_condition(config: type[ConditionConfig]) -> Callable[[Class], Class]:
    """Class decorator: register a condition under the name in its configuration class; see `ClassRegistry`."""
    return CONDITIONS.register(config)


class Condition(nn.Module, ABC):
    """What the agent is conditioned on, at every step.

    It is created as `Condition(config, spec)`, where `config` is of the class it was registered with and `spec` is an
    `AgentSpec`. Its buffers are stored with the agent's weights.

    Attributes:
        size: The number of values per step; 0 for no condition.
    """

    size: int

    @abstractmethod
    def from_batch(self, batch: Batch) -> Tensor:
        """The values in a training batch, (batch, time, size)."""

    def initial_state(self, target: Tensor) -> State:
        """The state before an episode's first step, for targets (batch,); by default these."""
        return (target,)

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

    def limit(self, value: Tensor, timestep: Tensor, hidden: Tensor | None, observation: Tensor) -> Tensor:
        """The values, (..., size), that the acting agent is conditioned on; unchanged by default.

        Args:
            value: From `step`.
            timestep: (...), steps since the episode's start.
            hidden: (..., width), the backbone's output; None if the condition enters by tokens.
            observation: (..., entries), whole observations.
        """
        return value

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The loss, float32, of what a condition that needs adaln learns from hidden states (batch, time, width), and
        metrics to log; zero by default. It is called under autocast."""
        return hidden.new_zeros(()), {}

    def normalise(self, value: Tensor) -> Tensor:
        """The values, (..., size), as the network reads them; unchanged by default."""
        return value


@config_dataclass
class NoConditionConfig(ConditionConfig):
    """No condition: behaviour cloning."""

    takes_target = False
    reads_reward = False
    name: str = "none"


@register_condition(NoConditionConfig)
class NoCondition(Condition):
    """No condition. State: empty."""

    size = 0

    def __init__(self, config: NoConditionConfig, spec: AgentSpec) -> None:
        super().__init__()

    def from_batch(self, batch: Batch) -> Tensor:
        return batch.observation.new_empty(*batch.timestep.shape, 0)

    def initial_state(self, target: Tensor) -> State:
        return ()

    def step(self, state: State, reward: Tensor, first: Tensor) -> tuple[Tensor, State]:
        return reward.new_empty(*reward.shape, 0), ()  # len(reward) would fix the batch size of an export
