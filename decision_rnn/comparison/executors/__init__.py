"""Executors, which start the runs of a comparison."""
