"""Agents to export: untrained, with Hopper's sizes and weights perturbed from their initial values."""

from pathlib import Path

import torch

from decision_rnn.agent import (
    AgentConfig,
    ConditionConfig,
    DecisionAgent,
    MSEConfig,
    ObjectiveConfig,
    ReturnToGoConfig,
    agent_spec,
)
from decision_rnn.backbones import BackboneConfig
from decision_rnn.config import ObservationConfig, RunConfig
from decision_rnn.data.spec import TASKS, observation_index
from decision_rnn.data.summary import DataSummary
from decision_rnn.deploy import Policy
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.training.checkpoint import TrainedAgent


def made_agent(
    backbone: BackboneConfig,
    agent: AgentConfig | None = None,
    objective: ObjectiveConfig | None = None,
    mask: str = "none",
    condition: ConditionConfig | None = None,
) -> TrainedAgent:
    agent, objective = agent or AgentConfig(), objective or MSEConfig()
    condition = condition or ReturnToGoConfig()
    spec = TASKS["hopper"].spec("standin/hopper-medium", "Hopper-v5", "nothing")
    index = observation_index(mask, spec.environment_id)
    seen = 11 if index is None else len(index)
    torch.manual_seed(0)
    made_for = agent_spec(
        torch.linspace(-1, 1, seen),
        torch.linspace(0.5, 2, seen),
        3,
        return_scale=1000.0,
        observation_index=None if index is None else torch.from_numpy(index),
        rtg_limit=torch.linspace(3000, 100, 250),
    )
    made = DecisionAgent(agent, backbone, made_for, condition, objective)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    config = RunConfig(
        dataset=spec.name,
        backbone=backbone,
        agent=agent,
        condition=condition,
        objective=objective,
        observation=ObservationConfig(mask=mask),
    )
    returns = {"return_mean": 1400.0, "return_sd": 400.0, "return_min": 300.0, "return_max": 3200.0}
    return TrainedAgent(made.eval(), config, DataSummary.from_spec(spec, fingerprint="0" * 64, **returns), 7, 1.5)


def exported(folder: Path, trained: TrainedAgent) -> Policy:
    export_onnx(trained, folder / "policy.onnx")
    return Policy.load(folder / "policy.onnx")
