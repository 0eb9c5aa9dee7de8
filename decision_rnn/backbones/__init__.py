"""The sequence backbones. Importing this package registers the built-in mixers."""

from decision_rnn.backbones import (
    aaren,
    conv,
    gru,
    lru,
    lstm,
    mamba,
    mingru,
    minlstm,
    mlp,
    mlstm,
    retention,
    rnn,
    s4d,
    transformer,
)
from decision_rnn.backbones.contract import (
    BackboneConfig,
    SequenceMixer,
    State,
    register,
    registered,
    registered_names,
    reset_rows,
    select_rows,
)
from decision_rnn.backbones.matching import count_parameters, match_parameters
from decision_rnn.backbones.resets import Resets
from decision_rnn.backbones.stack import Backbone
from decision_rnn.backbones.time_scales import FadingConfig, outlasts

__all__ = [
    "Backbone",
    "BackboneConfig",
    "FadingConfig",
    "Resets",
    "SequenceMixer",
    "State",
    "aaren",
    "conv",
    "count_parameters",
    "gru",
    "lru",
    "lstm",
    "mamba",
    "match_parameters",
    "mingru",
    "minlstm",
    "mlp",
    "mlstm",
    "outlasts",
    "register",
    "registered",
    "registered_names",
    "reset_rows",
    "retention",
    "rnn",
    "s4d",
    "select_rows",
    "transformer",
]
