"""The width at which a backbone has a given number of parameters, so that backbones of equal size can be compared.

Only the parameters of the stack (blocks and final norm) are counted, not those of the whole agent: a comparison
exchanges the stack, whose size is the same on every dataset. The embeddings and the head have the same form for all
backbones and grow with the dataset's observations and actions.
"""

import contextlib
import sys
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from decision_rnn.backbones.contract import BackboneConfig
from decision_rnn.backbones.stack import Backbone
from decision_rnn.utils.parsing import convert

TOLERANCE = 0.1
"""Largest relative deviation from the requested number of parameters: heads restrict the possible widths."""

WIDTHS = range(1, 16_385)


def count_parameters(module: nn.Module) -> int:
    """The number of trainable parameters of a module."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def match_parameters(config: type[BackboneConfig], parameters: int, **options: Any) -> BackboneConfig:
    """The configuration whose stack has the number of parameters nearest to `parameters`; only the width is varied.

    Args:
        config: Class of the configuration.
        parameters: Number of parameters of the stack, as counted by `count_parameters(Backbone(...))`.
        options: The configuration's other keys, including `name` if it has no default.

    Returns:
        A configuration with these options and the width found; the smaller of two equally near widths.

    Raises:
        ValueError: If the options are invalid; or, naming the nearest possible number of parameters, if that is more
            than a tenth away.
    """

    def of_width(width: int) -> BackboneConfig:
        return convert({**options, "width": width}, config, "backbone")  # classes of plugins may not convert text

    def first_valid(widths: Iterable[int]) -> BackboneConfig | None:
        for width in widths:
            with contextlib.suppress(ValueError):  # for example, a width that is not a multiple of the heads
                return of_width(width)
        return None

    def count(backbone: BackboneConfig | None) -> int:
        with torch.device("meta"):  # shapes without memory
            return sys.maxsize if backbone is None else count_parameters(Backbone(backbone))

    above = bisect_left(WIDTHS, parameters, key=lambda width: count(first_valid(WIDTHS[width - 1 :])))
    either = first_valid(reversed(WIDTHS[:above])), first_valid(WIDTHS[above:])
    nearest = min(either, key=lambda backbone: abs(count(backbone) - parameters))
    if nearest is None:
        return of_width(WIDTHS[-1])  # raises the error that says what is wrong
    if abs(count(nearest) - parameters) > TOLERANCE * parameters:
        raise ValueError(
            f"backbone.match_parameters {parameters:,} is out of reach of {nearest.name} with these options: "
            f"the nearest possible number is {count(nearest):,}, at width {nearest.width}"
        )
    return nearest
