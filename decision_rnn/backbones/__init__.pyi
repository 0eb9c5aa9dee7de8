"""The public names, which __init__.py imports on first use, for it and for type checkers."""

from decision_rnn.backbones.config import BackboneConfig as BackboneConfig
from decision_rnn.backbones.config import register as register
from decision_rnn.backbones.config import registered as registered
from decision_rnn.backbones.config import registered_names as registered_names
from decision_rnn.backbones.contract import SequenceMixer as SequenceMixer
from decision_rnn.backbones.contract import State as State
from decision_rnn.backbones.contract import reset_rows as reset_rows
from decision_rnn.backbones.contract import select_rows as select_rows
from decision_rnn.backbones.matching import count_parameters as count_parameters
from decision_rnn.backbones.matching import match_parameters as match_parameters
from decision_rnn.backbones.resets import Resets as Resets
from decision_rnn.backbones.stack import Backbone as Backbone
from decision_rnn.backbones.time_scales import FadingConfig as FadingConfig
from decision_rnn.backbones.time_scales import outlasts as outlasts

__all__: list[str]
