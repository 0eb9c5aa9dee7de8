"""Training with a compiled agent: the same losses within rounding, under autocast and with a carried state."""

from dataclasses import replace

import pytest
import torch

from decision_rnn.agent import DecisionAgent, agent_spec
from decision_rnn.backbones import Resets
from decision_rnn.config_parser import new_config
from decision_rnn.data.stream import Batch
from decision_rnn.training.trainer import Trainer

ROWS, TIME, OBSERVATIONS, ACTIONS = 4, 3, 5, 2


def batch(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    begins = torch.rand(ROWS, TIME, generator=generator) < 0.2

    def values(*shape: int) -> torch.Tensor:
        return torch.rand(ROWS, TIME, *shape, generator=generator)

    return Batch(
        observation=values(OBSERVATIONS),
        action=values(ACTIONS) - 0.5,
        previous_action=values(ACTIONS) - 0.5,
        reward=values(),
        return_to_go=values(1),
        timestep=torch.randint(1, 9, (ROWS, TIME), generator=generator).masked_fill(begins, 0),
        terminated=torch.zeros(ROWS, TIME, dtype=torch.bool),
        truncated=torch.zeros(ROWS, TIME, dtype=torch.bool),
        reset=Resets.from_mask(begins),
    )


def losses(compiled: bool, **keys: object) -> list[float]:
    torch.manual_seed(0)
    small = {"dataset": "hopper-medium", "backbone": "mingru", "backbone.layers": 1, "backbone.width": 8}
    config = new_config({**small, **keys}, "the test")
    cap = torch.full((9,), 1000.0)
    spec = agent_spec(torch.zeros(OBSERVATIONS), torch.ones(OBSERVATIONS), ACTIONS, rtg_cap=cap, training_rtg_cap=cap)
    agent = DecisionAgent(config.agent, config.backbone, spec, config.condition, config.objective)
    trainer = Trainer(agent, replace(config.training, tbptt_slices=3, warmup_steps=0, precision="bf16"))
    if compiled:
        torch._dynamo.reset()
        agent.compile(fullgraph=True, backend="aot_eager")
    found = []
    for step in range(4):
        torch.manual_seed(step)  # of objectives that draw
        found.append(trainer.step(batch(step)).loss.item())
        agent.objective.after_step()
    return found


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"objective": "gaussian_mixture"},
        {"objective": "action_chunk"},
        {"objective": "flow_matching"},
        {"objective": "td3_bc"},
        {"agent.tokens": "interleaved", "agent.previous_action": True, "agent.timestep_embedding": True},
    ],
    ids=lambda keys: "-".join(map(str, keys.values())) or "default",
)
def test_compiled_agent_trains_with_the_same_losses(keys: dict[str, object]) -> None:
    assert losses(True, **keys) == pytest.approx(losses(False, **keys), rel=0.01, abs=1e-3)
