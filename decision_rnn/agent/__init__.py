"""The agent, what it is conditioned on, and its training objectives."""

from decision_rnn.agent.action_chunk import ActionChunkConfig
from decision_rnn.agent.agent import ActingState, AgentConfig, DecisionAgent, TrainingOutput
from decision_rnn.agent.conditions import (
    CONDITIONS,
    Condition,
    ConditionConfig,
    NoConditionConfig,
    ReturnToGoConfig,
    register_condition,
)
from decision_rnn.agent.flow_matching import FlowMatchingConfig
from decision_rnn.agent.gaussian_mixture import GaussianMixtureConfig
from decision_rnn.agent.objectives import (
    OBJECTIVES,
    Objective,
    ObjectiveConfig,
    SupervisedConfig,
    check_objective,
    register_objective,
)
from decision_rnn.agent.spec import AgentSpec, agent_spec
from decision_rnn.agent.td3_bc import TD3BCConfig

__all__ = [
    "CONDITIONS",
    "OBJECTIVES",
    "ActingState",
    "ActionChunkConfig",
    "AgentConfig",
    "AgentSpec",
    "Condition",
    "ConditionConfig",
    "DecisionAgent",
    "FlowMatchingConfig",
    "GaussianMixtureConfig",
    "NoConditionConfig",
    "Objective",
    "ObjectiveConfig",
    "ReturnToGoConfig",
    "SupervisedConfig",
    "TD3BCConfig",
    "TrainingOutput",
    "agent_spec",
    "check_objective",
    "register_condition",
    "register_objective",
]
