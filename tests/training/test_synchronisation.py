"""A training step does not wait for the device: on the meta device, which has shapes and no values, reading one fails.

`Tensor.item`, `nonzero`, boolean indexing and a copy to the host all raise there. Where episodes begin is known on the
host, as from the stream.
"""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from decision_rnn.agent import DecisionAgent, agent_spec
from decision_rnn.agent.objectives import Supervised
from decision_rnn.backbones import Resets, registered_names
from decision_rnn.config_parser import new_config
from decision_rnn.data.stream import Batch
from decision_rnn.training import trainer
from decision_rnn.training.trainer import Trainer

ROWS, TIME, OBSERVATIONS, ACTIONS = 4, 20, 11, 3


@pytest.fixture(autouse=True)
def on_meta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train on the meta device, which neither autocast nor the fused optimiser knows."""
    unskipping = type("AdamW", (torch.optim.AdamW,), {"found_inf": property(lambda self: None, lambda *_: None)})
    monkeypatch.setattr(torch.optim, "AdamW", lambda groups, fused: unskipping(groups))
    monkeypatch.setattr(trainer, "pick_device", lambda name: torch.device("meta"))
    monkeypatch.setattr(torch, "autocast", lambda *args, **settings: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device=None: False)


def batch() -> Batch:
    """Slices with an episode that begins with its row and one that begins in the middle."""
    mask = torch.zeros(ROWS, TIME, dtype=torch.bool)
    mask[1, 0] = mask[2, 7] = True

    def values(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(ROWS, TIME, *shape, dtype=dtype, device="meta")

    return Batch(
        observation=values(OBSERVATIONS),
        action=values(ACTIONS),
        previous_action=values(ACTIONS),
        reward=values(),
        return_to_go=values(1),
        timestep=values(dtype=torch.int64),
        terminated=values(dtype=torch.bool),
        truncated=values(dtype=torch.bool),
        reset=Resets(mask.to("meta"), *mask.nonzero(as_tuple=True)),
    )


def two_steps(**keys: object) -> None:
    config = new_config({"dataset": "hopper-medium", "backbone": "mingru", "backbone.layers": 1, **keys}, "the test")
    cap = torch.full((9,), 1000.0)
    spec = agent_spec(torch.zeros(OBSERVATIONS), torch.ones(OBSERVATIONS), ACTIONS, rtg_cap=cap, training_rtg_cap=cap)
    agent = DecisionAgent(config.agent, config.backbone, spec, config.condition, config.objective)
    settings = replace(config.training, tbptt_slices=2, precision="fp32")
    training = Trainer(agent, settings)
    training.optimizers[-1].register_step_post_hook(lambda *_: agent.objective.after_step())
    for _ in range(2):
        training.step(batch())


@pytest.mark.parametrize("name", registered_names())
def test_training_step_reads_nothing_from_the_device(name: str) -> None:
    two_steps(backbone=name)


@pytest.mark.parametrize(
    "keys",
    [
        {"objective": "gaussian_mixture"},
        {"objective": "action_chunk"},
        {"objective": "flow_matching"},
        {"objective": "td3_bc"},
        {"agent.condition_at": "head"},
        {"agent.tokens": "interleaved", "agent.previous_action": True, "agent.timestep_embedding": True},
    ],
    ids=lambda keys: "-".join(map(str, keys.values())),
)
def test_objectives_and_tokens_read_nothing_from_the_device(keys: dict[str, object]) -> None:
    two_steps(**keys)


def test_reading_a_loss_fails_here(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = Supervised.loss

    def loss(self: Supervised, hidden: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        value, metrics = computed(self, hidden, batch)
        return value, {**metrics, "rounded": torch.tensor(round(value.item(), 3))}

    monkeypatch.setattr(Supervised, "loss", loss)
    with pytest.raises(RuntimeError, match="meta"):
        two_steps()
