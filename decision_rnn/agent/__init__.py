"""The return-conditioned agent and its training objectives."""

from decision_rnn.agent.agent import AgentConfig, DecisionAgent
from decision_rnn.agent.objectives import (
    Objective,
    ObjectiveConfig,
    SquaredErrorConfig,
    register_objective,
    registered_objective,
    registered_objectives,
)

__all__ = [
    "AgentConfig",
    "DecisionAgent",
    "Objective",
    "ObjectiveConfig",
    "SquaredErrorConfig",
    "register_objective",
    "registered_objective",
    "registered_objectives",
]
