"""`match_parameters` against an exhaustive search over widths and against formulas."""

from dataclasses import dataclass

import pytest
import torch

from decision_rnn.backbones import BACKBONES, Backbone, count_parameters, match_parameters, registered


def mingru_parameters(width, layers=3):
    """Two norms, gates and candidate, an MLP of four times the width; and the last norm."""
    block = 4 * width + 2 * (width + 1) * width + (width + 1) * 4 * width + (4 * width + 1) * width
    return layers * block + 2 * width


def test_count_parameters_counts_only_trainable_parameters():
    assert count_parameters(Backbone(registered("mingru").config(width=24))) == mingru_parameters(24)
    frozen = torch.nn.Linear(3, 5)
    frozen.bias.requires_grad_(False)
    assert count_parameters(frozen) == 15


@pytest.mark.parametrize("parameters", [20_000, 100_000, 600_000, 200_000_000])
def test_match_parameters_finds_the_nearest_width(parameters):
    nearest = min(range(1, 4000), key=lambda width: abs(mingru_parameters(width) - parameters))
    before = torch.get_rng_state()
    assert match_parameters(registered("mingru").config, parameters).width == nearest
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", BACKBONES.names())
def test_no_neighbouring_width_of_a_backbone_is_nearer(name):
    """Of those that the layer accepts, by the parameters of backbones that are really built."""
    parameters = 34_000
    config = match_parameters(registered(name).config, parameters, layers=2)

    def distance(width):
        try:
            return abs(count_parameters(Backbone(registered(name).config(layers=2, width=width))) - parameters)
        except ValueError:  # heads do not divide it
            return float("inf")

    assert config.layers == 2
    assert distance(config.width) <= 0.1 * parameters
    assert distance(config.width) == min(distance(width) for width in range(config.width - 16, config.width + 17))


@pytest.mark.parametrize(("parameters", "width"), [(10, 1), (10**12, 16_384)])
def test_match_parameters_with_unreachable_number_raises(parameters, width):
    with pytest.raises(ValueError, match="backbone") as error:
        match_parameters(registered("mingru").config, parameters)
    for word in (f"{parameters:,}", "mingru", f"{mingru_parameters(width):,}", f"width {width}"):
        assert word in str(error.value)


def test_options_of_a_plugins_dataclass_may_be_text():
    """The command line passes text, which the classes of this package convert themselves."""

    @dataclass(frozen=True, kw_only=True)
    class Config(registered("mingru").config):
        pass

    assert match_parameters(Config, 50_000, layers="2").layers == 2
