"""Runs on disk: their folder, their checkpoints, and agents by name."""
