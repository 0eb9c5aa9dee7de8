"""The agent, what it is conditioned on, and its training objectives. Importing this package does not import torch."""

from decision_rnn.utils.registry import public_names

__getattr__, __all__ = public_names(__name__)
