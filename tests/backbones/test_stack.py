"""What the stack adds to the mixer. test_contract.py tests its values and gradients."""

import pytest
import torch
import torch.nn.functional as F
from subjects import OTHER_STACK, SMALL, WIDTH, Subject
from torch import nn

from decision_rnn.backbones import BACKBONES, Backbone, registered
from decision_rnn.backbones.testing import BATCH, TIME, noise

EVERY = pytest.mark.parametrize("name", BACKBONES.names())


def stack(name, layers=2, **options):
    return Backbone(registered(name).config(width=WIDTH, layers=layers, **SMALL.get(name, [{}])[0] | options))


@EVERY
def test_stack_state_is_that_of_its_blocks_in_order(name):
    backbone, x = stack(name, layers=3).double(), noise(BATCH, TIME, WIDTH)
    _, state = backbone(x)
    _, first = backbone.blocks[0].mixer(backbone.blocks[0].mixer_norm(x))
    assert len(backbone.initial_state(BATCH)) == len(state) == 3 * len(first)
    for part, right in zip(state, first, strict=False):
        torch.testing.assert_close(part, right, equal_nan=True)


@EVERY
def test_dropout_acts_only_in_training(name):
    backbone, x = stack(name, dropout=0.5), noise(BATCH, TIME, WIDTH, dtype=torch.float32)
    state = backbone.initial_state(BATCH)
    assert not torch.equal(backbone(x)[0], backbone(x)[0])
    assert not torch.equal(backbone.step(x[:, 0], state)[0], backbone.step(x[:, 0], state)[0])
    backbone.eval()
    assert torch.equal(backbone(x)[0], backbone(x)[0])
    torch.testing.assert_close(backbone(x)[0][:, 0], backbone.step(x[:, 0], state)[0])


@pytest.mark.parametrize("convolution", [0, 3])
@EVERY
def test_dropout_of_one_zeroes_the_embedding_and_every_branch(name, convolution):
    """The residual stream is zero, so that the final norm outputs its bias."""
    options = SMALL.get(name, [{}])[0] | {"dropout": 1.0, "convolution": convolution}
    backbone, x = Subject(name, options, layers=2).build(), noise(BATCH, TIME, WIDTH)
    for y in (backbone(x)[0], backbone.step(x[:, 0], backbone.initial_state(BATCH))[0]):
        assert torch.equal(y, backbone.norm.bias.expand_as(y))


def test_block_of_were_rnns_all_we_needed_has_the_papers_parameters():
    """Its block for selective copying: expansion 6, a convolution of width 4, RMSNorm and no MLP."""
    backbone = stack("mingru", layers=1, expansion=6.0, **OTHER_STACK)
    shapes = {name: tuple(p.shape) for name, p in backbone.named_parameters()}
    assert shapes == {
        "blocks.0.convolution.weight": (WIDTH, 4),
        "blocks.0.convolution.bias": (WIDTH,),
        "blocks.0.mixer_norm.weight": (WIDTH,),
        "blocks.0.mixer.gates.weight": (12 * WIDTH, WIDTH),
        "blocks.0.mixer.gates.bias": (12 * WIDTH,),
        "blocks.0.mixer.output.weight": (WIDTH, 6 * WIDTH),
        "blocks.0.mixer.output.bias": (WIDTH,),
        "norm.weight": (WIDTH,),
    }
    assert [part.shape for part in backbone.initial_state(BATCH)] == [(BATCH, 3, WIDTH), (BATCH, 6 * WIDTH)]


@pytest.mark.parametrize(("ratio", "hidden"), [(4.0, 4 * WIDTH), (0.5, WIDTH // 2)])
def test_block_keeps_its_weights_for_a_seed_and_its_names(ratio, hidden):
    """The mixer is initialised before the MLP; checkpoints contain the parameters' names."""
    torch.manual_seed(0)
    found = stack("gru", init_half_life=1, mlp_ratio=ratio).state_dict()  # torch's own biases
    torch.manual_seed(0)
    right = {}
    for i in range(2):
        parts = {
            "mixer_norm": nn.LayerNorm(WIDTH),
            "mixer.cell": nn.GRU(WIDTH, WIDTH, batch_first=True),
            "mlp_norm": nn.LayerNorm(WIDTH),
            "mlp": nn.Sequential(nn.Linear(WIDTH, hidden), nn.ReLU(), nn.Linear(hidden, WIDTH)),
        }
        for name, part in parts.items():
            right |= {f"blocks.{i}.{name}.{key}": value for key, value in part.state_dict().items()}
    right |= {f"norm.{key}": value for key, value in nn.LayerNorm(WIDTH).state_dict().items()}
    assert list(found) == list(right)
    assert all(torch.equal(found[name], right[name]) for name in right)


def test_block_convolution_equals_torch_conv1d():
    convolution = Subject("gru", OTHER_STACK, layers=1).build().blocks[0].convolution
    x, kernel = noise(BATCH, TIME, WIDTH), convolution.weight.unsqueeze(1)
    right = F.conv1d(F.pad(x.transpose(1, 2), (3, 0)), kernel, convolution.bias, groups=WIDTH).transpose(1, 2)
    torch.testing.assert_close(convolution(x)[0], right)
    fresh = Backbone(registered("gru").config(width=1000, layers=1, convolution=4)).blocks[0].convolution
    for parameter in fresh.parameters():  # initialised like torch's own
        assert parameter.abs().max() <= 0.5
        assert parameter.std().item() == pytest.approx(1 / 12**0.5, rel=0.1)
