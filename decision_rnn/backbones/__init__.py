"""The sequence backbones. Importing this package makes the built-in ones known, and does not import torch."""

from decision_rnn.backbones import built_in as built_in
from decision_rnn.utils.registry import public_names

__getattr__, __all__ = public_names(__name__)
