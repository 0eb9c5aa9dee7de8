"""Rollouts in the environment, and the scores computed from them."""
