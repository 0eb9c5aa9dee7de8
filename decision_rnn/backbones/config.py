"""What the options of all backbones share, and the registry of backbones."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from decision_rnn.utils.parsing import STRICT as STRICT
from decision_rnn.utils.parsing import PositiveInt as PositiveInt
from decision_rnn.utils.registry import Class, Registry


@dataclass(frozen=True, kw_only=True, config=STRICT)
class BackboneConfig:
    """The part of a backbone's configuration that all backbones share.

    Attributes:
        name: The sequence mixer's name.
        width: Channels of the residual stream.
        layers: Number of blocks of mixer and MLP.
        mlp_ratio: Hidden width of the MLP as a multiple of `width`; 0 for no MLP.
        dropout: Probability of dropping a channel of the embedding and of each residual branch.
        norm: `layer`, LayerNorm, or `rms`, RMSNorm, for all norms of the stack.
        convolution: Kernel size, in steps, of a causal convolution in front of every mixer; 0 for none.
    """

    name: str
    width: PositiveInt = 128
    layers: PositiveInt = 3
    mlp_ratio: Annotated[float, Field(ge=0)] = 4.0
    dropout: Annotated[float, Field(ge=0, le=1)] = 0.0
    norm: Literal["layer", "rms"] = "layer"
    convolution: Annotated[int, Field(ge=0)] = 0

    def __post_init__(self) -> None:
        """Raise ValueError, naming the key, if a value is invalid; subclasses extend it."""
        if self.mlp_ratio and round(self.width * self.mlp_ratio) < 1:
            raise ValueError(f"backbone.mlp_ratio {self.mlp_ratio} leaves no channel of backbone.width {self.width}")
        if self.convolution == 1:
            raise ValueError("backbone.convolution must be 0, for none, or at least 2")


BACKBONES: Registry[BackboneConfig] = Registry("backbone")
registered = BACKBONES.registered
registered_names = BACKBONES.names


def register_backbone(config: type[BackboneConfig]) -> Callable[[Class], Class]:
    """Class decorator: register a mixer under the name in its configuration class; see `Registry.register`."""
    return BACKBONES.register(config)


def check_multiple(width: int, factor: int) -> None:
    """Raise ValueError unless `backbone.width` is a multiple of what `backbone.heads` requires."""
    if width % factor:
        raise ValueError(f"backbone.width {width} must be a multiple of {factor}, for backbone.heads")
