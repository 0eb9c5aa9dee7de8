"""Conditions of an agent."""
