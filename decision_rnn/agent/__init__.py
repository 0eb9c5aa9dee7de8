"""The agent, its conditions and its training objectives. Importing this package registers the built-in ones."""

from decision_rnn.agent.agent import ActingState as ActingState
from decision_rnn.agent.agent import DecisionAgent as DecisionAgent
from decision_rnn.agent.agent import check_objective as check_objective
from decision_rnn.agent.conditions.base import CONDITIONS as CONDITIONS
from decision_rnn.agent.conditions.base import Condition as Condition
from decision_rnn.agent.conditions.base import ConditionConfig as ConditionConfig
from decision_rnn.agent.conditions.base import NoConditionConfig as NoConditionConfig
from decision_rnn.agent.conditions.base import register_condition as register_condition
from decision_rnn.agent.conditions.return_to_go import ReturnToGoConfig as ReturnToGoConfig
from decision_rnn.agent.conditions.subgoal import SubgoalConfig as SubgoalConfig
from decision_rnn.agent.conditions.time_to_goal import TimeToGoalConfig as TimeToGoalConfig
from decision_rnn.agent.network import AgentConfig as AgentConfig
from decision_rnn.agent.network import TrainingOutput as TrainingOutput
from decision_rnn.agent.objectives.action_chunk import ActionChunkConfig as ActionChunkConfig
from decision_rnn.agent.objectives.base import OBJECTIVES as OBJECTIVES
from decision_rnn.agent.objectives.base import Objective as Objective
from decision_rnn.agent.objectives.base import ObjectiveConfig as ObjectiveConfig
from decision_rnn.agent.objectives.base import register_objective as register_objective
from decision_rnn.agent.objectives.flow_matching import FlowMatchingConfig as FlowMatchingConfig
from decision_rnn.agent.objectives.gmm import GMMConfig as GMMConfig
from decision_rnn.agent.objectives.mse import MSEConfig as MSEConfig
from decision_rnn.agent.spaces import AgentSpec as AgentSpec
