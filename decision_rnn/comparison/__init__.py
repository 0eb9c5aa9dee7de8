"""Comparison of many runs."""
