"""Offline reinforcement learning with a return-conditioned agent and a swappable sequence backbone."""

__version__ = "0.1.0"
