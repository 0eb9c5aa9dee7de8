"""A small agent of any kind with its trainer, and the kinds to try."""

from dataclasses import replace
from typing import Any

import torch

from decision_rnn.agent import DecisionAgent, agent_spec
from decision_rnn.config import from_dict
from decision_rnn.training.trainer import Trainer

OBSERVATIONS, ACTIONS = 11, 3
KINDS: list[dict[str, Any]] = [
    {"objective": "gmm"},
    {"objective": "action_chunk"},
    {"objective": "flow_matching"},
    {"agent.conditioning": "adaln"},
    {"agent.tokens": "interleaved", "agent.previous_action": True, "agent.timestep_embedding": True},
]


def small_trainer(settings: dict[str, Any], **keys: Any) -> Trainer[DecisionAgent]:
    """The trainer of an agent with these keys, one layer of minGRU by default, and these settings of training."""
    config = from_dict({"dataset": "hopper-medium", "backbone": "mingru", "backbone.layers": 1, **keys}, "the test")
    limits = dict.fromkeys(("rtg_limit", "training_rtg_limit"), torch.full((9,), 1000.0))
    spec = agent_spec(torch.zeros(OBSERVATIONS), torch.ones(OBSERVATIONS), ACTIONS, **limits)
    agent = DecisionAgent(config.agent, config.backbone, spec, config.condition_options, config.objective_options)
    trainer = Trainer(agent, replace(config.training, **settings))
    trainer.optimizers[-1].register_step_post_hook(lambda *_: agent.objective.after_step())
    return trainer
