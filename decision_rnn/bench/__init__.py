"""Benchmarks of decision_rnn against the alternatives: `decision-rnn bench NAME`."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decision_rnn.bench.measure import Row

BENCHES = ("train", "processes", "rollout", "data", "scan", "backbones", "deploy")
"""The names of the benchmarks."""


def bench_of(name: str) -> "Callable[..., list[Row]]":
    """The benchmark of that name, `bench_NAME` of its module; its parameters are its options on the command line."""
    return getattr(importlib.import_module(f"{__package__}.{name}"), f"bench_{name}")
