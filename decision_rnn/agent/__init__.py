"""The return-conditioned agent."""

from decision_rnn.agent.agent import AgentConfig, DecisionAgent, optimizer_groups

__all__ = ["AgentConfig", "DecisionAgent", "optimizer_groups"]
