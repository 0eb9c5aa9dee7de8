"""The width at which a backbone has a given number of parameters, so that backbones of equal size can be compared.

Counted are the parameters of the stack (blocks and final norm), not those of the whole agent: the stack is what a
comparison swaps, and its size is the same on every dataset, while the embeddings and the head around it are of one
form for all backbones and grow with the dataset's observations and actions.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from decision_rnn.backbones.contract import BackboneConfig
from decision_rnn.backbones.stack import Backbone

TOLERANCE = 0.1
"""How far the nearest number may lie from the one asked for, as a share of it: heads make widths come in steps."""

LARGEST_WIDTH = 16_384


def count_parameters(module: nn.Module) -> int:
    """How many numbers of a module are trained."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def match_parameters(config: type[BackboneConfig], parameters: int, **options: Any) -> BackboneConfig:
    """The configuration whose stack comes nearest to that many parameters, found by its width alone.

    Args:
        config: Class of the configuration.
        parameters: Of the stack, as `count_parameters(Backbone(...))` counts them.
        options: The configuration's other keys, `name` included where it has no default.

    Returns:
        A configuration with those options and the width found; the smaller one of two that are equally near.

    Raises:
        ValueError: If the options themselves cannot be used; if the mixer cannot be made without its numbers; or,
            naming the nearest possible number of parameters, if that is more than a tenth away.
    """

    def make(width: int) -> BackboneConfig:
        return config(**options, width=width)

    def count(width: int) -> int:
        backbone = make(width)
        try:
            with torch.device("meta"):  # sizes without memory
                return count_parameters(Backbone(backbone))
        except RuntimeError as error:  # of a mixer that looks at its numbers
            raise ValueError(f"cannot count parameters of {backbone.name}, so give backbone.width: {error}") from None

    limit = 1024
    widths = _usable_widths(make, 1, limit)
    while limit < LARGEST_WIDTH and (not widths or count(widths[-1]) < parameters):
        widths += _usable_widths(make, limit + 1, 2 * limit)
        limit *= 2
    if not widths:
        make(LARGEST_WIDTH)  # says what is wrong
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
        except ValueError:  # heads that do not divide it, for one
            continue
        widths.append(width)
    return widths
