"""The options of the agent, its conditions and its objectives, and their registries."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import pydantic.dataclasses

from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import STRICT
from decision_rnn.utils.registry import Class, Registry

LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
"""The quantiles that are learnt; between them the return in reach is interpolated."""
REACH, RTG_QUANTILE = 0.99, 0.8
"""The defaults of `condition.reach` and of `condition.rtg_quantile`, of which only one applies."""


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=STRICT)
class AgentConfig:
    """How the agent reads its history.

    Attributes:
        tokens: `step`: one token per environment step, the sum of the embeddings of all inputs; `interleaved`: one
            token per input, in the order previous action (if used), condition, observation. With `previous_action`
            these are the Decision Transformer's three tokens.
        previous_action: Whether the agent sees its previous action, as the Decision Transformer does. Where
            observations contain the full state, as in MuJoCo's locomotion tasks, it can mislead: consecutive actions
            are similar, but repeating the last one controls badly (Wen et al., "Fighting Copycat Agents in Behavioral
            Cloning from Observation Histories" (2020)).
        timestep_embedding: Add a learnt embedding of the step's number within the episode, as the Decision
            Transformer does.
        condition_at: Where the condition enters: as a `token` or a part of one, as in the Decision Transformer, or at
            the `head`, where it modulates what the backbone returns (adaptive layer norm, as in DDT, arXiv 2601.15953),
            whose state then does not depend on what is asked for. If left out, `head` with a return and
            `training.goal_relabeling hindsight`, which needs it, otherwise `token`.
        goals_at: Where goals in observations, their `desired_goal`, enter: with the rest of the `observation`, or at
            the `head`, as the condition does there, so that the state does not depend on the goal.
    """

    tokens: Literal["step", "interleaved"] = "step"
    previous_action: bool = False
    timestep_embedding: bool = False
    condition_at: Literal["token", "head"] | None = None
    goals_at: Literal["observation", "head"] = "observation"


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=STRICT)
class ConditionConfig:
    """The part of a condition's configuration that all conditions share.

    Attributes:
        name: The condition's name.
    """

    name: str


@dataclass(frozen=True, kw_only=True)
class NoConditionConfig(ConditionConfig):
    """No condition: the agent is trained by behaviour cloning."""

    name: str = "none"


@dataclass(frozen=True, kw_only=True)
class ReturnToGoConfig(ConditionConfig):
    """The return-to-go, the undiscounted sum of rewards from this step on, as in the Decision Transformer.

    Attributes:
        reach: Largest return-to-go that the agent sees when it acts, as a quantile of what it could still earn in the
            data, judged from what it has seen: `agent.reach.ReturnInReach`, which is learnt with the agent and needs
            `agent.condition_at head`. It is also what the target `auto` asks for. From 0.5 to 0.995; 0: none. If left
            out, 0.99 with `agent.condition_at head`, otherwise 0.
        rtg_quantile: Largest return-to-go that the acting agent sees, as a quantile q of the data's: the largest, over
            timesteps, of the q quantile over the episodes that last that long, weighted by their returns: at 0.8, a
            fifth of all that the data earned is in episodes that return more. It is the same at all timesteps: at late
            ones the quantile is that of episodes about to end, and asking for so little ends the agent's own. Only
            where returns-to-go rise over time, since rewards are costs, is it that of the timestep. Training shows
            returns-to-go up to a little more, so that a part of the best data shows what to do at the cap:
            `EpisodeStore.return_to_go_caps`. 1: the largest; 0: no cap. If left out, 0.8 where `reach` is
            0, otherwise 0.
        noise: Standard deviation of the noise added to a segment's returns-to-go in training, the same value at all of
            its steps, in units of the return scale.
    """

    name: str = "return_to_go"
    reach: float | None = None
    rtg_quantile: float | None = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        if not self.noise >= 0:  # also rejects NaN
            raise InputError(f"condition.noise is {self.noise}: it must be at least 0")
        if self.reach and not LEVELS[0] <= self.reach <= LEVELS[-1]:  # also rejects NaN
            raise InputError(
                f"condition.reach is {self.reach}: it must be from {LEVELS[0]} to {LEVELS[-1]}, or 0 for no limit"
            )
        if self.rtg_quantile is not None and not 0 <= self.rtg_quantile <= 1:
            raise InputError(
                f"condition.rtg_quantile is {self.rtg_quantile}: it must be from 0, which is no cap, to 1, the largest"
            )

    def completed(self, at_head: bool) -> "ReturnToGoConfig":
        """With values for what was left out; InputError if what is in reach cannot be judged, `at_head` or not."""
        if self.reach and not at_head:
            raise InputError(
                f"condition.reach {self.reach} is judged from a state that must not know what is asked for: set "
                "agent.condition_at head, or leave condition.reach out"
            )
        reach = (REACH if at_head else 0.0) if self.reach is None else self.reach
        cap = (0.0 if reach else RTG_QUANTILE) if self.rtg_quantile is None else self.rtg_quantile
        return replace(self, reach=reach, rtg_quantile=cap)

    @property
    def limited(self) -> bool:
        """Whether what the acting agent sees is limited, so that it may be asked for `auto`."""
        return bool(self.reach or self.rtg_quantile)


CONDITIONS: Registry[ConditionConfig] = Registry("condition")


def register_condition(config: type[ConditionConfig]) -> Callable[[Class], Class]:
    """Class decorator: register a condition under the name in its configuration class; see `Registry.register`."""
    return CONDITIONS.register(config)


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=STRICT)
class ObjectiveConfig:
    """The part of an objective's configuration that all objectives share.

    Attributes:
        name: The objective's name.
    """

    name: str


@dataclass(frozen=True, kw_only=True)
class MSEConfig(ObjectiveConfig):
    """The data's actions: squared error in a Box, cross-entropy of discrete ones."""

    name: str = "mse"


@dataclass(frozen=True, kw_only=True)
class ActionChunkConfig(ObjectiveConfig):
    """The data's next actions, several at once.

    Attributes:
        chunk_size: Their number.
    """

    name: str = "action_chunk"
    chunk_size: int = 5

    def __post_init__(self) -> None:
        if self.chunk_size < 1:
            raise InputError(f"objective.chunk_size is {self.chunk_size}: it must be at least 1")


@dataclass(frozen=True, kw_only=True)
class FlowMatchingConfig(ObjectiveConfig):
    """The velocities that carry noise to the data's actions.

    Attributes:
        flow_steps: The number of Euler steps from noise to an action.
        width: Channels of the two hidden layers of the velocity network.
    """

    name: str = "flow_matching"
    flow_steps: int = 10
    width: int = 256

    def __post_init__(self) -> None:
        for key in ("flow_steps", "width"):
            if getattr(self, key) < 1:
                raise InputError(f"objective.{key} is {getattr(self, key)}: it must be at least 1")


@dataclass(frozen=True, kw_only=True)
class GMMConfig(ObjectiveConfig):
    """The probability of the data's actions: under a mixture of Gaussians in a Box, cross-entropy of discrete ones.

    Attributes:
        num_components: The number of Gaussians.
        min_std: Smallest standard deviation of a Gaussian, in units of half the action's range. The narrower they may
            be, the more of the loss is about foretelling the noise in the data's actions rather than the way they go.
    """

    name: str = "gmm"
    num_components: int = 5
    min_std: float = 0.1

    def __post_init__(self) -> None:
        if self.num_components < 1:
            raise InputError(f"objective.num_components is {self.num_components}: it must be at least 1")
        if not 0 < self.min_std < math.inf:  # also rejects NaN
            raise InputError(f"objective.min_std is {self.min_std}: it must be above 0 and finite")


OBJECTIVES: Registry[ObjectiveConfig] = Registry("objective")


def register_objective(config: type[ObjectiveConfig]) -> Callable[[Class], Class]:
    """Class decorator: register an objective under the name in its configuration class; see `Registry.register`."""
    return OBJECTIVES.register(config)
