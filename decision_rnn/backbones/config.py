"""What the options of all backbones share, and the registry of backbones. Importing this does not import torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from decision_rnn.utils.registry import Class, Registry

if TYPE_CHECKING:
    from decision_rnn.backbones.contract import SequenceMixer


@dataclass(frozen=True, kw_only=True)
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
    width: int = 128
    layers: int = 3
    mlp_ratio: float = 4.0
    dropout: float = 0.0
    norm: Literal["layer", "rms"] = "layer"
    convolution: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError, naming the key, if a value is invalid; subclasses extend it."""
        if self.width < 1 or self.layers < 1:
            raise ValueError(f"backbone.width {self.width} and backbone.layers {self.layers} must be at least 1")
        if self.mlp_ratio < 0:
            raise ValueError(f"backbone.mlp_ratio {self.mlp_ratio} must be 0, for no MLP, or above")
        if self.mlp_ratio and round(self.width * self.mlp_ratio) < 1:
            raise ValueError(f"backbone.mlp_ratio {self.mlp_ratio} leaves no channel of backbone.width {self.width}")
        if not 0 <= self.dropout <= 1:
            raise ValueError(f"backbone.dropout {self.dropout} must be between 0 and 1")
        if self.norm not in ("layer", "rms"):
            raise ValueError(f"backbone.norm {self.norm!r} must be layer or rms")
        if self.convolution < 0 or self.convolution == 1:
            raise ValueError(f"backbone.convolution {self.convolution} must be 0, for none, or at least 2")


BACKBONES: "Registry[SequenceMixer, BackboneConfig]" = Registry("backbone")
registered = BACKBONES.registered
registered_names = BACKBONES.names


def register(config: type[BackboneConfig]) -> Callable[[Class], Class]:
    """Class decorator: register a mixer under the name in its configuration class; see `Registry.register`."""
    return BACKBONES.register(config)
