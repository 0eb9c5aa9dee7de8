"""Benchmarks of decision_rnn against the alternatives: `decision-rnn bench NAME`."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.measure import Row

BENCHES = {
    "train": "a training step of every backbone, beside the Decision Transformer's",
    "rollout": "an evaluation, beside the environments alone, and an action",
    "data": "sampling a training batch, beside reading as many rows",
    "scan": "the linear recurrence, as a share of the memory bandwidth",
    "backbones": "a single layer, by the length of the sequence and by the steps taken",
    "deploy": "an exported policy, beside its agent, and the time to its first action",
}
"""The benchmarks, each with what it measures."""


def bench_of(name: str) -> "Callable[..., list[Row]]":
    """The benchmark of that name, `bench_NAME` of its module; its parameters are its options on the command line."""
    return getattr(importlib.import_module(f"{__package__}.{name}"), f"bench_{name}")
