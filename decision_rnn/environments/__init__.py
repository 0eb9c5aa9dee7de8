"""Environments, and how episodes are played in them."""
