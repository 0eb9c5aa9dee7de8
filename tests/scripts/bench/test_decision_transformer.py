"""The Decision Transformer baseline: published size, initialisation, causality, dropout and loss."""

import pytest
import torch
from bench.decision_transformer import DecisionTransformer

from decision_rnn.data.stream import StepStream

BATCH, TIME = 3, 7


def make(store, dropout=0.1):
    torch.manual_seed(0)
    return DecisionTransformer(store, 500.0, width=128, layers=3, dropout=dropout)


@pytest.fixture
def batch(store):
    return StepStream(store, TIME, BATCH, 0).sample()


def test_decision_transformer_has_the_published_number_of_parameters_and_gpt2_weights(store):
    model, width = make(store), 128
    norm = 2 * width
    embeddings = 1000 * width + (1 + 1) * width + (11 + 1) * width + (3 + 1) * width + norm
    attention = (width + 1) * 3 * width + (width + 1) * width
    mlp = (width + 1) * 4 * width + (4 * width + 1) * width
    heads = (width + 1) * (11 + 3 + 1)
    expected = embeddings + 3 * (norm + attention + norm + mlp) + norm + heads
    assert sum(p.numel() for p in model.parameters()) == expected == 727_567
    for block in model.blocks:
        assert block.qkv.weight.std().item() == pytest.approx(0.02, rel=0.05)
        assert not block.mlp[0].bias.any()


@pytest.mark.parametrize("changed", ["observation", "action", "return_to_go"])
@torch.no_grad()
def test_decision_transformer_predictions_are_causal(store, batch, changed):
    """An action depends only on returns and observations up to its step and on earlier actions."""
    model, step = make(store).eval(), 4
    before = model.predict(batch)
    getattr(batch, changed)[:, step] += 100
    after = model.predict(batch)
    actions_known = step + 1 if changed == "action" else step
    for found, right, known in zip(after, before, (step, actions_known, step), strict=True):
        torch.testing.assert_close(found[:, :known], right[:, :known], rtol=0, atol=1e-6)
        assert (found[:, known] - right[:, known]).abs().min() > 1e-6


def test_decision_transformer_loss_is_the_squared_error_and_falls_in_training(store, batch):
    model = make(store, dropout=0.0)
    output = model(batch)
    first = output.loss.item()
    assert first == pytest.approx((model.predict(batch)[1] - batch.action).square().mean().item(), rel=1e-6)
    assert (output.metrics, output.state) == ({}, ())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(150):
        optimizer.zero_grad()
        loss = model(batch).loss
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.02 * first


def test_decision_transformer_uses_dropout_in_training(store, batch):
    model, without = make(store), make(store, dropout=0.0)
    assert not torch.equal(model.predict(batch)[1], model.predict(batch)[1])
    assert torch.equal(without.predict(batch)[1], without.predict(batch)[1])
