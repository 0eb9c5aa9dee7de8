"""The agent, its conditions and its training objectives."""

from decision_rnn.agent.agent import ActingState as ActingState
from decision_rnn.agent.agent import AgentConfig as AgentConfig
from decision_rnn.agent.agent import DecisionAgent as DecisionAgent
from decision_rnn.agent.agent import TrainingOutput as TrainingOutput
from decision_rnn.agent.agent import check_objective as check_objective
from decision_rnn.agent.conditions import CONDITIONS as CONDITIONS
from decision_rnn.agent.conditions import Condition as Condition
from decision_rnn.agent.conditions import ConditionConfig as ConditionConfig
from decision_rnn.agent.conditions import NoConditionConfig as NoConditionConfig
from decision_rnn.agent.conditions import ReturnToGoConfig as ReturnToGoConfig
from decision_rnn.agent.conditions import TimeToGoalConfig as TimeToGoalConfig
from decision_rnn.agent.conditions import register_condition as register_condition
from decision_rnn.agent.objectives import OBJECTIVES as OBJECTIVES
from decision_rnn.agent.objectives import ActionChunkConfig as ActionChunkConfig
from decision_rnn.agent.objectives import FlowMatchingConfig as FlowMatchingConfig
from decision_rnn.agent.objectives import GMMConfig as GMMConfig
from decision_rnn.agent.objectives import MSEConfig as MSEConfig
from decision_rnn.agent.objectives import Objective as Objective
from decision_rnn.agent.objectives import ObjectiveConfig as ObjectiveConfig
from decision_rnn.agent.objectives import register_objective as register_objective
from decision_rnn.agent.spaces import AgentSpec as AgentSpec
from decision_rnn.agent.spaces import agent_spec as agent_spec
