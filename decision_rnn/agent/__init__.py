"""The agent, what it is conditioned on, and its training objectives."""

from decision_rnn.agent import action_chunk as action_chunk
from decision_rnn.agent import flow_matching as flow_matching
from decision_rnn.agent import gmm as gmm
from decision_rnn.agent.agent import ActingState as ActingState
from decision_rnn.agent.agent import DecisionAgent as DecisionAgent
from decision_rnn.agent.agent import TrainingOutput as TrainingOutput
from decision_rnn.agent.conditions import Condition as Condition
from decision_rnn.agent.config import CONDITIONS as CONDITIONS
from decision_rnn.agent.config import OBJECTIVES as OBJECTIVES
from decision_rnn.agent.config import ActionChunkConfig as ActionChunkConfig
from decision_rnn.agent.config import AgentConfig as AgentConfig
from decision_rnn.agent.config import ConditionConfig as ConditionConfig
from decision_rnn.agent.config import FlowMatchingConfig as FlowMatchingConfig
from decision_rnn.agent.config import GMMConfig as GMMConfig
from decision_rnn.agent.config import MSEConfig as MSEConfig
from decision_rnn.agent.config import NoConditionConfig as NoConditionConfig
from decision_rnn.agent.config import ObjectiveConfig as ObjectiveConfig
from decision_rnn.agent.config import ReturnToGoConfig as ReturnToGoConfig
from decision_rnn.agent.config import register_condition as register_condition
from decision_rnn.agent.config import register_objective as register_objective
from decision_rnn.agent.objectives import Objective as Objective
from decision_rnn.agent.objectives import check_objective as check_objective
from decision_rnn.agent.spec import AgentSpec as AgentSpec
from decision_rnn.agent.spec import agent_spec as agent_spec
