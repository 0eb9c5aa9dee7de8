"""What the stack adds to the mixer; its values and gradients are under the law (test_law.py)."""

import pytest
import torch
from subjects import BATCH, SMALL, TIME, WIDTH, Subject, noise

from decision_rnn.backbones import Backbone, registered, registered_names


@pytest.mark.parametrize("name", registered_names())
def test_state_is_the_blocks_states_in_order(name):
    options = SMALL.get(name, [{}])[0]
    config = registered(name).config(width=WIDTH, layers=3, **options)
    backbone, one = Backbone(config).double(), len(registered(name).mixer(config).initial_state(BATCH))
    assert len(backbone.initial_state(BATCH)) == 3 * one
    x = noise(BATCH, TIME, WIDTH)
    _, state = backbone(x)
    _, first = backbone.blocks[0].mixer(backbone.blocks[0].mixer_norm(x))
    for part, right in zip(state[:one], first, strict=True):
        torch.testing.assert_close(part, right, equal_nan=True)


@pytest.mark.parametrize("name", registered_names())
def test_recurrent_parameters_are_those_of_every_block(name):
    backbone = Backbone(registered(name).config(width=WIDTH, layers=2, **SMALL.get(name, [{}])[0]))
    found = {id(parameter) for parameter in backbone.recurrent_parameters()}
    assert found == {id(p) for block in backbone.blocks for p in block.mixer.recurrent_parameters()}


@pytest.mark.parametrize(("ratio", "hidden"), [(4.0, 32), (0.5, 4)])
def test_mlp_ratio_is_the_hidden_width(ratio, hidden):
    backbone = Backbone(registered("mingru").config(width=WIDTH, layers=2, mlp_ratio=ratio))
    shapes = [tuple(p.shape) for block in backbone.blocks for p in block.mlp.parameters() if p.dim() == 2]
    assert shapes == [(hidden, WIDTH), (WIDTH, hidden)] * 2


@pytest.mark.parametrize("name", registered_names())
def test_dropout_acts_in_training_alone(name):
    config = registered(name).config(width=WIDTH, layers=2, dropout=0.5, **SMALL.get(name, [{}])[0])
    backbone, x = Backbone(config), noise(BATCH, TIME, WIDTH, dtype=torch.float32)
    state = backbone.initial_state(BATCH)
    assert not torch.equal(backbone(x)[0], backbone(x)[0])
    assert not torch.equal(backbone.step(x[:, 0], state)[0], backbone.step(x[:, 0], state)[0])
    backbone.eval()
    assert torch.equal(backbone(x)[0], backbone(x)[0])
    torch.testing.assert_close(backbone(x)[0][:, 0], backbone.step(x[:, 0], state)[0])


@pytest.mark.parametrize("name", registered_names())
def test_dropout_of_one_silences_the_embedding_and_every_branch(name):
    """Nothing is left in the residual stream, so that the final norm gives its bias."""
    options = SMALL.get(name, [{}])[0] | {"dropout": 1.0}
    backbone, x = Subject(name, options, layers=2).build(), noise(BATCH, TIME, WIDTH)
    y, _ = backbone(x)
    assert torch.equal(y, backbone.norm.bias.expand_as(y))
    y, _ = backbone.step(x[:, 0], backbone.initial_state(BATCH))
    assert torch.equal(y, backbone.norm.bias.expand_as(y))
