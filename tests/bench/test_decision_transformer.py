"""The Decision Transformer baseline: published size, initialisation, causal and padding masks, training."""

import pytest
import torch
from torch import Tensor

from decision_rnn.bench.decision_transformer import DecisionTransformer
from decision_rnn.bench.train import DecisionTransformerTask
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.stream import StepStream

BATCH, TIME, OBSERVATION, ACTION = 3, 7, 11, 3


def inputs(batch: int = BATCH, time: int = TIME) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "observation": torch.randn(batch, time, OBSERVATION, generator=generator),
        "action": torch.rand(batch, time, ACTION, generator=generator) * 2 - 1,
        "return_to_go": torch.randn(batch, time, 1, generator=generator),
        "timestep": torch.randint(1000, (batch, time), generator=generator),
        "mask": torch.ones(batch, time),
    }


@pytest.fixture
def model() -> DecisionTransformer:
    torch.manual_seed(0)
    return DecisionTransformer(OBSERVATION, ACTION).eval()


def test_decision_transformer_has_the_published_number_of_parameters():
    width = 128
    norm = 2 * width
    embeddings = 1000 * width + (1 + 1) * width + (11 + 1) * width + (3 + 1) * width + norm
    attention = (width + 1) * 3 * width + (width + 1) * width
    mlp = (width + 1) * 4 * width + (4 * width + 1) * width
    heads = (width + 1) * (11 + 3 + 1)
    expected = embeddings + 3 * (norm + attention + norm + mlp) + norm + heads
    assert sum(p.numel() for p in DecisionTransformer(OBSERVATION, ACTION).parameters()) == expected == 727_567


def test_decision_transformer_initial_weights_are_those_of_gpt2(model):
    for block in model.blocks:
        assert block.attention.qkv.weight.std().item() == pytest.approx(0.02, rel=0.05)
        assert not block.mlp[0].bias.any()


@pytest.mark.parametrize("changed", ["observation", "action", "return_to_go"])
@torch.no_grad()
def test_decision_transformer_predictions_are_causal(model, changed):
    """An action depends only on returns and observations up to its step and on earlier actions."""
    data, step = inputs(), 4
    before = model(**data)
    data[changed] = data[changed].clone()
    data[changed][:, step] += 1
    after = model(**data)
    actions_known = step + 1 if changed == "action" else step
    for head, known in zip((0, 1, 2), (step, actions_known, step), strict=True):
        torch.testing.assert_close(after[head][:, :known], before[head][:, :known], rtol=0, atol=1e-6)
        assert (after[head][:, known] - before[head][:, known]).abs().min() > 1e-6


@torch.no_grad()
def test_decision_transformer_ignores_left_padding(model):
    """With any left padding, predictions for the real steps and the loss equal those without padding."""
    data, missing = inputs(), 5
    expected, loss = model(**data), model.loss(**data)
    padded = {}
    for name, value in data.items():
        filler = torch.zeros_like(value[:, :1]) if name == "mask" else value[:, :1] * 3 % 1000
        padded[name] = torch.cat([filler.expand(-1, missing, *value.shape[2:]), value], dim=1)
    for actual, exact in zip(model(**padded), expected, strict=True):
        torch.testing.assert_close(actual[:, missing:], exact)
    torch.testing.assert_close(model.loss(**padded), loss)


def test_decision_transformer_overfits_a_small_batch(model):
    data = inputs(batch=4, time=5)
    model.eval()  # without dropout, so that it can overfit
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    first = model.loss(**data).item()
    for _ in range(150):
        optimizer.zero_grad()
        loss = model.loss(**data)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.02 * first


def test_decision_transformer_uses_dropout_in_training(model):
    data = inputs()
    model.train()
    assert not torch.equal(model(**data)[1], model(**data)[1])
    without = DecisionTransformer(OBSERVATION, ACTION, dropout=0.0)
    assert torch.equal(without(**data)[1], without(**data)[1])


@torch.no_grad()
def test_decision_transformer_task_loss_is_the_squared_error_on_normalised_batches(store: EpisodeStore):
    task = DecisionTransformerTask(store, 500.0, dropout=0.0)
    batch = StepStream(store, TIME, BATCH, 0).sample()
    mean, std = (torch.from_numpy(part).float() for part in (store.observation_mean, store.observation_std))
    normalised = (batch.observation - mean) / (std + 1e-6)
    mask = torch.ones(BATCH, TIME)
    _, predicted, _ = task.model(normalised, batch.action, batch.return_to_go / 500, batch.timestep, mask)
    loss, state = task(batch, None)
    assert loss.item() == pytest.approx((predicted - batch.action).square().mean().item(), rel=1e-6)
    assert state == ()
