"""The options of the built-in backbones, which help and checks read without importing torch.

Each layer is in the module of its backbone's name, with its paper, equations and deviations from them, and is imported
when it is first created.
"""

import math
from dataclasses import dataclass
from typing import Literal

from decision_rnn.backbones.config import BackboneConfig
from decision_rnn.backbones.time_scales import FadingConfig


def _check_heads(width: int, heads: int) -> None:
    if heads < 1 or width % heads:
        raise ValueError(f"backbone.width {width} must be a multiple of backbone.heads {heads}")


@dataclass(frozen=True, kw_only=True)
class AarenConfig(BackboneConfig):
    """Aaren, "Attention as an RNN".

    Attributes:
        heads: Attention heads, each with its own query.
    """

    name: str = "aaren"
    heads: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_heads(self.width, self.heads)


@dataclass(frozen=True, kw_only=True)
class ConvConfig(BackboneConfig):
    """Conv, "Decision ConvFormer".

    Attributes:
        kernel: Number of steps that an output sees, including its own.
    """

    name: str = "conv"
    kernel: int = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kernel < 2:
            raise ValueError(f"backbone.kernel {self.kernel} must be at least 2; the backbone mlp sees one step alone")


@dataclass(frozen=True, kw_only=True)
class GRUConfig(FadingConfig):
    """GRU, "Learning Phrase Representations using RNN Encoder-Decoder"."""

    name: str = "gru"


@dataclass(frozen=True, kw_only=True)
class S4DConfig(FadingConfig):
    """S4D, "On the Parameterization and Initialization of Diagonal State Space Models".

    Attributes:
        state_size: Number of states of every channel, two for each stored complex number.
        start: Initialisation of A: `lin`, `inv` or `real`.
    """

    name: str = "s4d"
    state_size: int = 64
    start: Literal["lin", "inv", "real"] = "lin"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.state_size < 2 or self.state_size % 2:
            raise ValueError(f"backbone.state_size {self.state_size} must be even and at least 2")
        if self.start not in ("lin", "inv", "real"):
            raise ValueError(f"backbone.start {self.start!r} must be lin, inv or real")


@dataclass(frozen=True, kw_only=True)
class H3Config(S4DConfig):
    """H3, "Hungry Hungry Hippos".

    Attributes:
        kernel: Steps that the shift state space sees, including the present one.
    """

    name: str = "h3"
    kernel: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kernel < 2:
            raise ValueError(f"backbone.kernel {self.kernel} must be at least 2")


@dataclass(frozen=True, kw_only=True)
class HGRNConfig(FadingConfig):
    """HGRN, "Hierarchically Gated Recurrent Neural Network for Sequence Modeling".

    Attributes:
        complex: Whether the state is complex and rotates.
    """

    name: str = "hgrn"
    complex: bool = True


@dataclass(frozen=True, kw_only=True)
class LRUConfig(FadingConfig):
    """LRU, "Resurrecting Recurrent Neural Networks for Long Sequences".

    Attributes:
        state_size: Complex channels of the recurrent state; `width` if left out.
        max_phase: Largest initial phase of lambda, in radians.
        parametrization: Parametrisation of lambda: `stable`, `exponential` or `plain`.
        normalization: Whether the input is scaled by gamma.
    """

    name: str = "lru"
    state_size: int | None = None
    max_phase: float = math.pi / 10
    parametrization: Literal["stable", "exponential", "plain"] = "stable"
    normalization: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.state_size is not None and self.state_size < 1:
            raise ValueError(f"backbone.state_size {self.state_size} must be at least 1")
        if self.max_phase <= 0:
            raise ValueError(f"backbone.max_phase {self.max_phase} must be above 0")
        if self.parametrization not in ("stable", "exponential", "plain"):
            raise ValueError(
                f"backbone.parametrization {self.parametrization!r} must be one of stable, exponential, plain"
            )


@dataclass(frozen=True, kw_only=True)
class LSTMConfig(FadingConfig):
    """LSTM, "Long Short-Term Memory".

    Attributes:
        peepholes: Whether the gates also depend on the cell.
    """

    name: str = "lstm"
    peepholes: bool = False


@dataclass(frozen=True, kw_only=True)
class MambaConfig(FadingConfig):
    """Mamba, "Linear-Time Sequence Modeling with Selective State Spaces".

    Attributes:
        expansion: Number of inner channels as a multiple of `width`.
        state_size: Number of states of every inner channel.
        kernel: Kernel size of the short convolution, in steps.
    """

    name: str = "mamba"
    expansion: float = 2.0
    state_size: int = 16
    kernel: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width * self.expansion < 1:
            raise ValueError(f"backbone.expansion {self.expansion} leaves no channel of backbone.width {self.width}")
        if self.state_size < 1 or self.kernel < 2:
            raise ValueError(
                f"backbone.state_size {self.state_size} must be at least 1 and backbone.kernel {self.kernel} at least 2"
            )


@dataclass(frozen=True, kw_only=True)
class MinimalConfig(FadingConfig):
    """Options shared by minGRU and minLSTM.

    Attributes:
        expansion: Channels of the recurrent state as a multiple of `width`; if not 1, the state is projected back to
            `width`.
        projection: Whether the state is projected at expansion 1 too.
        candidate: `positive`, with g, as in the paper's experiments; or `signed`, without g.
        scan: How a slice of time is computed: `direct`, step by step, exact and faster on a CPU; or `log`, the
            paper's parallel scan in log space, which needs positive candidates.
    """

    expansion: float = 1.0
    projection: bool = False
    candidate: Literal["positive", "signed"] = "positive"
    scan: Literal["direct", "log"] = "direct"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width * self.expansion < 1:
            raise ValueError(f"backbone.expansion {self.expansion} leaves no channel of backbone.width {self.width}")
        if self.candidate not in ("positive", "signed"):
            raise ValueError(f"backbone.candidate {self.candidate!r} must be positive or signed")
        if self.scan not in ("direct", "log"):
            raise ValueError(f"backbone.scan {self.scan!r} must be direct or log")
        if self.scan == "log" and self.candidate == "signed":
            raise ValueError("backbone.scan log takes logarithms of candidates: backbone.candidate must be positive")

    @property
    def inner(self) -> int:
        """Channels of the recurrent state."""
        return round(self.width * self.expansion)


@dataclass(frozen=True, kw_only=True)
class MinGRUConfig(MinimalConfig):
    """minGRU, "Were RNNs All We Needed?"."""

    name: str = "mingru"


@dataclass(frozen=True, kw_only=True)
class MinLSTMConfig(MinimalConfig):
    """minLSTM, "Were RNNs All We Needed?"."""

    name: str = "minlstm"


@dataclass(frozen=True, kw_only=True)
class MLPConfig(BackboneConfig):
    """MLP, the control without memory; its hidden layer has `width` channels."""

    name: str = "mlp"


@dataclass(frozen=True, kw_only=True)
class MLSTMConfig(FadingConfig):
    """mLSTM, "xLSTM: Extended Long Short-Term Memory".

    Attributes:
        heads: Number of heads, each with its own memory.
    """

    name: str = "mlstm"
    heads: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_heads(self.width, self.heads)


@dataclass(frozen=True, kw_only=True)
class RetentionConfig(FadingConfig):
    """Retention, "Retentive Network".

    Attributes:
        heads: Number of heads, each with its own decay.
        expansion: Channels of the values as a multiple of `width`.
    """

    name: str = "retention"
    heads: int = 4
    expansion: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads < 1 or self.width % (2 * self.heads):
            raise ValueError(f"backbone.width {self.width} must be a multiple of twice backbone.heads {self.heads}")
        inner = self.width * self.expansion
        if inner < self.heads or inner % self.heads:
            raise ValueError(
                f"backbone.expansion {self.expansion} of backbone.width {self.width} must give a multiple of "
                f"backbone.heads {self.heads}"
            )


@dataclass(frozen=True, kw_only=True)
class RNNConfig(BackboneConfig):
    """Simple recurrent network, "Finding Structure in Time".

    Attributes:
        activation: `tanh`, or `relu` with U initialised to the identity.
    """

    name: str = "rnn"
    activation: Literal["tanh", "relu"] = "tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.activation not in ("tanh", "relu"):
            raise ValueError(f"backbone.activation {self.activation!r} must be tanh or relu")


@dataclass(frozen=True, kw_only=True)
class RWKVConfig(FadingConfig):
    """RWKV-4, "RWKV: Reinventing RNNs for the Transformer Era"."""

    name: str = "rwkv"


@dataclass(frozen=True, kw_only=True)
class SCRNConfig(FadingConfig):
    """SCRN, "Learning Longer Memory in Recurrent Neural Networks".

    Attributes:
        context_units: Number of context units; `width` if left out.
        learn_alpha: Whether alpha is trained; otherwise it stays as `init_half_life` sets it.
    """

    name: str = "scrn"
    context_units: int | None = None
    learn_alpha: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.context_units is not None and self.context_units < 1:
            raise ValueError(f"backbone.context_units {self.context_units} must be at least 1")


@dataclass(frozen=True, kw_only=True)
class SLSTMConfig(FadingConfig):
    """sLSTM, "xLSTM: Extended Long Short-Term Memory".

    Attributes:
        heads: Number of heads; the recurrent matrices mix the channels of a head.
    """

    name: str = "slstm"
    heads: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_heads(self.width, self.heads)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BackboneConfig):
    """Transformer with local causal attention.

    Attributes:
        heads: Attention heads; their width must be even.
        window: How many tokens, including itself, a token attends to.
        output_gate: Whether the attention's output is multiplied by a sigmoid gate computed from the token.
    """

    name: str = "transformer"
    heads: int = 1
    window: int = 20
    output_gate: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads < 1 or self.window < 1:
            raise ValueError(f"backbone.heads {self.heads} and backbone.window {self.window} must be at least 1")
        if self.width % (2 * self.heads):
            raise ValueError(f"backbone.width {self.width} must be a multiple of twice backbone.heads {self.heads}")
