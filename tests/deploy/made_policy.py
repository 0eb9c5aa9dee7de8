"""Agents to export: untrained, with Hopper's sizes and weights perturbed from their initial values."""

from pathlib import Path

import torch
from agent_specs import agent_spec

from decision_rnn.agent import (
    AgentConfig,
    ConditionConfig,
    DecisionAgent,
    MSEConfig,
    ObjectiveConfig,
    ReturnToGoConfig,
)
from decision_rnn.backbones import BackboneConfig
from decision_rnn.config import ObservationConfig, RunConfig
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.deploy import Policy, export_onnx
from decision_rnn.environments.spaces import described_spaces
from decision_rnn.environments.tasks import TASKS, observation_index
from decision_rnn.runs.checkpoint import TrainedAgent


def made_agent(
    backbone: BackboneConfig,
    agent: AgentConfig | None = None,
    objective: ObjectiveConfig | None = None,
    mask: str = "none",
    condition: ConditionConfig | None = None,
) -> TrainedAgent:
    config = RunConfig(
        dataset="standin/hopper-medium",
        backbone=backbone,
        agent=agent or AgentConfig(),
        condition=condition or ReturnToGoConfig(),
        objective=objective or MSEConfig(),
        observation=ObservationConfig(mask=mask),
    )
    index = observation_index(mask, "Hopper-v5")
    entries = 11 if index is None else len(index)
    torch.manual_seed(0)
    spec = agent_spec(
        torch.linspace(-1, 1, entries),
        torch.linspace(0.5, 2, entries),
        3,
        11,
        return_scale=1000.0,
        observation_index=None if index is None else torch.from_numpy(index),
        rtg_limit=torch.linspace(3000, 100, 250),
    )
    made = DecisionAgent(config.agent, config.backbone, spec, config.condition, config.objective)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    returns = {"return_mean": 1400.0, "return_sd": 400.0, "return_min": 300.0, "return_max": 3200.0}
    data = DatasetSpec(
        name="standin/hopper-medium",
        environment_id="Hopper-v5",
        comparable="nothing",
        spaces=described_spaces(*TASKS["hopper"].spaces()),
        fingerprint="0" * 64,
        **TASKS["hopper"].scores(),
        **returns,
    )
    return TrainedAgent(made.eval(), config, data, 7, 1.5)


def exported(folder: Path, trained: TrainedAgent) -> Policy:
    export_onnx(trained, folder / "policy.onnx")
    return Policy.load(folder / "policy.onnx")
