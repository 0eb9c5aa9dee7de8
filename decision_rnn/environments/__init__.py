"""Environments, and how episodes are played in them. Importing this adds this package's families of environments."""

from decision_rnn.environments import memory, ogbench

__all__ = ["memory", "ogbench"]
