"""The sequence backbones. Importing this package registers every layer in its folder."""

import importlib
import pkgutil

from decision_rnn.backbones.contract import BACKBONES as BACKBONES
from decision_rnn.backbones.contract import BackboneConfig as BackboneConfig
from decision_rnn.backbones.contract import SequenceMixer as SequenceMixer
from decision_rnn.backbones.contract import State as State
from decision_rnn.backbones.contract import register_backbone as register_backbone
from decision_rnn.backbones.contract import registered as registered
from decision_rnn.backbones.contract import reset_rows as reset_rows
from decision_rnn.backbones.contract import select_rows as select_rows
from decision_rnn.backbones.matching import count_parameters as count_parameters
from decision_rnn.backbones.matching import match_parameters as match_parameters
from decision_rnn.backbones.stack import Backbone as Backbone
from decision_rnn.backbones.time_scales import FadingConfig as FadingConfig
from decision_rnn.backbones.time_scales import memory_exceeds as memory_exceeds

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
