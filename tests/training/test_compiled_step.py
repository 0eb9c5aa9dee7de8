"""Training with a compiled agent: the same losses within rounding, under autocast and with a carried state."""

import pytest
import torch
from small_trainer import ACTIONS, KINDS, OBSERVATIONS, small_trainer

from decision_rnn.data.stream import Batch

ROWS, TIME = 4, 3


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
        reset=begins,
    )


def losses(compiled: bool, keys: dict[str, object]) -> list[float]:
    torch.manual_seed(0)
    settings = {"tbptt_segments": 3, "warmup_steps": 0, "precision": "bf16"}
    trainer = small_trainer(settings, **{"backbone.width": 8, **keys})
    if compiled:
        torch._dynamo.reset()
        trainer.model.compile(fullgraph=True, backend="aot_eager")
    found = []
    for step in range(4):
        torch.manual_seed(step)  # of objectives that draw
        found.append(trainer.step(batch(step)).loss.item())
    return found


@pytest.mark.parametrize("keys", [{}, *KINDS], ids=lambda keys: "-".join(map(str, keys.values())) or "default")
def test_compiled_agent_trains_with_the_same_losses(keys: dict[str, object]) -> None:
    assert losses(True, keys) == pytest.approx(losses(False, keys), rel=0.01, abs=1e-3)
