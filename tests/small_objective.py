"""Shared by the tests of objectives: one of eight hidden channels and three actions, and batches of actions alone."""

from dataclasses import replace

import gymnasium
import torch
from torch import Tensor

from decision_rnn.agent import OBJECTIVES, Objective, ObjectiveConfig, agent_spec
from decision_rnn.agent.spaces import unit_box
from decision_rnn.data.stream import Batch

WIDTH, ACTIONS = 8, 3


def small_objective(config: ObjectiveConfig, actions: gymnasium.Space | None = None) -> Objective:
    torch.manual_seed(0)
    spec = replace(agent_spec(torch.zeros(2), torch.ones(2), actions or unit_box(ACTIONS)), width=WIDTH)
    return OBJECTIVES.registered(config.name).cls(config, spec)


def slices(action: Tensor) -> Batch:
    nothing = torch.zeros(0)
    return Batch(nothing, action, *[nothing] * 6, torch.zeros(action.shape[:2], dtype=torch.bool))
