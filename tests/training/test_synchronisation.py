"""A training step does not wait for the device: on the meta device, which has shapes and no values, reading one fails.

`Tensor.item`, `nonzero`, boolean indexing and a copy to the host all raise there. Where episodes begin is known on the
host, as from the stream.
"""

from contextlib import nullcontext

import pytest
import torch
from small_trainer import ACTIONS, KINDS, OBSERVATIONS, small_trainer
from torch import Tensor

from decision_rnn.agent.objectives import MSE
from decision_rnn.backbones import registered_names
from decision_rnn.data.stream import Batch
from decision_rnn.training import trainer

ROWS, TIME = 4, 20


@pytest.fixture(autouse=True, scope="module")
def functions_looked_up() -> None:
    """The compiler looks torch's functions up once, which is not to be while `on_meta` replaces some."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(()))


@pytest.fixture(autouse=True)
def on_meta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train on the meta device, which neither autocast nor the fused optimiser knows."""
    unskipping = type("AdamW", (torch.optim.AdamW,), {"found_inf": property(lambda self: None, lambda *_: None)})
    monkeypatch.setattr(torch.optim, "AdamW", lambda groups, fused: unskipping(groups))
    monkeypatch.setattr(trainer, "pick_device", lambda name: torch.device("meta"))
    monkeypatch.setattr(torch, "autocast", lambda *args, **settings: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device=None: False)


def batch() -> Batch:
    """Segments with an episode that begins with its row and one that begins in the middle."""
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
        reset=mask.to("meta"),
    )


def two_steps(**keys: object) -> None:
    training = small_trainer({"tbptt_segments": 2, "precision": "fp32"}, **keys)
    for _ in range(2):
        training.step(batch())


@pytest.mark.xfail(reason="layers read where episodes begin on the host")
@pytest.mark.parametrize("name", registered_names())
def test_training_step_reads_nothing_from_the_device(name: str) -> None:
    two_steps(backbone=name)


@pytest.mark.xfail(reason="layers read where episodes begin on the host")
@pytest.mark.parametrize("keys", KINDS, ids=lambda keys: "-".join(map(str, keys.values())))
def test_objectives_and_tokens_read_nothing_from_the_device(keys: dict[str, object]) -> None:
    two_steps(**keys)


def test_reading_a_loss_fails_here(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = MSE.loss

    def loss(self: MSE, hidden: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        value, metrics = computed(self, hidden, batch)
        return value, {**metrics, "rounded": torch.tensor(round(value.item(), 3))}

    monkeypatch.setattr(MSE, "loss", loss)
    with pytest.raises(RuntimeError, match="meta"):
        two_steps()
