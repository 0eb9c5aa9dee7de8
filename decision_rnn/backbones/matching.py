"""The width at which a backbone has a given number of parameters, so that backbones of equal size can be compared.

Only the parameters of the stack (blocks and final norm) are counted, not those of the whole agent: a comparison
exchanges the stack, whose size is the same on every dataset. The embeddings and the head have the same form for all
backbones and grow with the dataset's observations and actions.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from decision_rnn.backbones.config import BackboneConfig
from decision_rnn.backbones.stack import Backbone

TOLERANCE = 0.1
"""Largest relative deviation from the requested number of parameters: heads restrict the possible widths."""

LARGEST_WIDTH = 16_384


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
        ValueError: If the options are invalid; if the mixer cannot be created on the meta device; or, naming the
            nearest possible number of parameters, if that is more than a tenth away.
    """

    def make(width: int) -> BackboneConfig:
        return config(**options, width=width)

    def count(width: int) -> int:
        backbone = make(width)
        try:
            with torch.device("meta"):  # shapes without memory
                return count_parameters(Backbone(backbone))
        except RuntimeError as error:  # a mixer whose constructor reads the values of its weights
            raise ValueError(f"cannot count parameters of {backbone.name}, so give backbone.width: {error}") from None

    limit = 1024
    widths = _usable_widths(make, 1, limit)
    while limit < LARGEST_WIDTH and (not widths or count(widths[-1]) < parameters):
        widths += _usable_widths(make, limit + 1, 2 * limit)
        limit *= 2
    if not widths:
        make(LARGEST_WIDTH)  # raises the error that says what is wrong
    above = bisect_left(widths, parameters, key=count)
    nearest = min(widths[max(0, above - 1) : above + 1], key=lambda width: abs(count(width) - parameters))
    found = count(nearest)
    if abs(found - parameters) > TOLERANCE * parameters:
        raise ValueError(
            f"backbone.match_parameters {parameters:,} is out of reach of {make(nearest).name} with these options: "
            f"the nearest possible number is {found:,}, at width {nearest}"
        )
    return make(nearest)


def _usable_widths(make: Callable[[int], BackboneConfig], first: int, last: int) -> list[int]:
    widths = []
    for width in range(first, last + 1):
        try:
            make(width)
        except ValueError:  # for example, a width that is not a multiple of the heads
            continue
        widths.append(width)
    return widths
