"""HGRN: its lower bounds over depth. test_contract.py tests its equations."""

import copy
import math

import pytest
import torch

from decision_rnn.backbones import Backbone, registered
from decision_rnn.backbones.testing import add_noise, noise


def make(**options):
    torch.manual_seed(0)
    return Backbone(registered("hgrn").config(width=8, layers=4, **options))


def bounds(backbone):
    return torch.stack([torch.as_tensor(block.mixer.lower_bound()).expand(8) for block in backbone.blocks])


def test_hgrn_lower_bounds_start_evenly_and_grow_with_depth():
    backbone = make()
    torch.testing.assert_close(bounds(backbone), torch.tensor([0, 1 / 4, 2 / 4, 3 / 4])[:, None].expand(4, 8))
    for weight in (0.2, 3.0):  # whatever the weights
        for parameter in backbone.parameters():
            parameter.data += weight * torch.randn_like(parameter)
        assert (bounds(backbone).diff(dim=0) > 0).all()
        assert bounds(backbone).max() < 1


def test_hgrn_bounds_of_low_layers_are_trained_through_those_above():
    """Where only the top layer is used: its bound is made of all below."""
    mixers = [block.mixer for block in make().double().blocks]
    y, _ = mixers[3](noise(2, 5, 8))
    grads = torch.autograd.grad(y.square().sum(), [mixer.rise for mixer in mixers[1:]])
    assert all(grad.abs().min() > 0 for grad in grads)
    assert mixers[0].rise is None


def test_hgrn_copy_has_bounds_of_its_own():
    backbone = make()
    other = add_noise(copy.deepcopy(backbone))
    assert not torch.equal(bounds(other)[3], bounds(backbone)[3])
    backbone.load_state_dict(other.state_dict())
    assert torch.equal(bounds(other), bounds(backbone))


@pytest.mark.parametrize("init_half_life", [1, 100])
def test_hgrn_half_lives_start_from_half_open_gates(init_half_life):
    """Spread from those of every layer to `init_half_life`, evenly over the logarithm."""
    for depth, block in enumerate(make(init_half_life=init_half_life).blocks):
        keep, _, _ = block.mixer._project(torch.zeros(1, 8))
        steps = math.log(0.5) / torch.log(torch.hypot(*keep).detach()[0])
        shortest = math.log(0.5) / math.log((1 + depth / 4) / 2)
        assert steps[-1].item() == pytest.approx(shortest, rel=1e-4)
        assert steps[0].item() == pytest.approx(max(init_half_life, shortest), rel=1e-3)
        assert (steps.log().diff().diff().abs() < 1e-3).all()
