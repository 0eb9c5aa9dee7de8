"""Subgoals: what is to be achieved a few steps on, predicted from the goal."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from decision_rnn.agent.adaln import AdaptiveLayerNorm
from decision_rnn.agent.conditions.base import register_condition
from decision_rnn.agent.conditions.time_to_goal import TimeToGoal, TimeToGoalConfig
from decision_rnn.agent.objectives.gmm import GMM, GMMConfig
from decision_rnn.agent.spaces import AgentSpec, unit_box
from decision_rnn.backbones.contract import without_autocast
from decision_rnn.data.hindsight import GoalEntries
from decision_rnn.data.stream import Batch
from decision_rnn.utils.parsing import PositiveInt, config_dataclass

LARGEST_CHANGE = 4.0
"""The largest predicted change of an entry of the goal, as a multiple of its root mean square in the data."""
MIN_STD = 0.05
"""Smallest standard deviation of the components of a predicted change, in units of the largest one."""
LAYERS = 3
"""Blocks of MLPs of the planner, and as many between the subgoal and the action."""


@config_dataclass
class SubgoalConfig(TimeToGoalConfig):
    """A subgoal on the way to the goal, and the time to it, for goals relabelled in hindsight.

    Attributes:
        subgoal_steps: How many steps ahead the subgoal lies; it is the goal if that is nearer.
    """

    adaln_layers = LAYERS
    name: str = "subgoal"
    subgoal_steps: PositiveInt = 25


@register_condition(SubgoalConfig)
class Subgoal(TimeToGoal):
    """Minus the number of steps to the goal, and how the achieved goal is to change over the next `subgoal_steps`, in
    the environment's units. State: as of `TimeToGoal`.

    The backbone does not see the goal. From its hidden state and the goal, a planner predicts the quantiles of the time
    to the goal and, given a time, a mixture of changes, of which the acting agent takes the most probable one at every
    step. The action depends on the hidden state, the change and the steps in which it is to come about, not on the
    goal. These are the two levels of HIQL (Park et al. 2023) without its value function: both are learnt by the
    likelihood of the data, as in the hierarchical behaviour cloning of Park et al., "Horizon Reduction Makes RL
    Scalable" (2025).
    """

    changes: Tensor

    def __init__(self, config: SubgoalConfig, spec: AgentSpec) -> None:
        super().__init__(config, spec)
        self.goals, self.steps = GoalEntries.of_space(spec.observation_space, "the agent"), config.subgoal_steps
        size = self.goals.desired.stop - self.goals.desired.start
        self.size = 1 + size
        self.register_buffer("changes", torch.ones(size) if spec.goal_changes is None else spec.goal_changes)
        self.by_goal = AdaptiveLayerNorm(size, spec.width, layers=LAYERS)
        self.by_time = AdaptiveLayerNorm(1, spec.width)
        self.mixture = GMM(GMMConfig(min_std=MIN_STD), replace(spec, action_space=unit_box(size)))

    def from_batch(self, batch: Batch) -> Tensor:
        return torch.cat([batch.return_to_go, batch.subgoal - batch.observation[..., self.goals.achieved]], dim=-1)

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, Tensor]]:
        plan = self.plan(hidden, batch.observation)
        loss, metrics = super().loss(plan, batch)
        time, change = super().normalise(batch.return_to_go), self.from_batch(batch)[..., 1:] / self.largest_change
        plan = self.by_time(time, plan)
        with without_autocast(plan):
            change_loss, errors = self.mixture.loss(plan.float(), batch._replace(action=change.clamp(-1, 1)))
        change_loss = change_loss / change.shape[-1]  # the likelihood of an action has few entries too
        metrics = {**metrics, "subgoal_loss": change_loss, "subgoal_error": errors["squared_error"]}
        return loss + change_loss, metrics

    def limit(self, value: Tensor, timestep: Tensor, hidden: Tensor | None, observation: Tensor) -> Tensor:
        assert hidden is not None
        plan = self.plan(hidden, observation)
        time = super().limit(value[..., :1], timestep, plan, observation)
        change = self.mixture.action(self.by_time(super().normalise(time), plan))
        return torch.cat([time, change * self.largest_change], dim=-1)

    def normalise(self, value: Tensor) -> Tensor:
        steps = value[..., :1].clamp_min(-self.steps) / self.steps
        return torch.cat([steps, value[..., 1:] / self.changes], dim=-1)

    def plan(self, hidden: Tensor, observation: Tensor) -> Tensor:
        """Hidden states that depend on the goal, (..., width), from those of the backbone, (..., width), and
        observations (..., entries)."""
        way = observation[..., self.goals.desired] - observation[..., self.goals.achieved]
        return self.by_goal(way / self.changes, hidden)

    @property
    def largest_change(self) -> Tensor:
        """(goal,), the largest predicted change of each entry of the goal."""
        return LARGEST_CHANGE * self.changes
