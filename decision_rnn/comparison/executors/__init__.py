"""Executors, which run the cells of a comparison."""
