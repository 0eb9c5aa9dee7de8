"""The time before the first step is at most proportional to the data: one long episode, or many of one step."""

import shutil
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from decision_rnn import Episode, train, write_store
from decision_rnn.data.limits import return_to_go_limits
from decision_rnn.data.store import EpisodeStore

SMALL, LARGE = 2_000, 20_000
OPTIONS: dict[str, Any] = {"steps": 1, "progress": False, "evaluation": {"episodes": 0}}
OPTIONS |= {"backbone": {"name": "mingru", "width": 16, "layers": 1}}


def write(name: str, lengths: np.ndarray) -> EpisodeStore:
    random = np.random.default_rng(0)

    def episode(steps: int) -> Episode:
        observations, actions = random.normal(size=(steps + 1, 3)), random.uniform(-1, 1, (steps, 1))
        return Episode(observations, actions, random.normal(size=steps), True, False)

    return write_store(f"local/{name}", map(episode, lengths.tolist()))


def cost(work: Callable[[], object]) -> tuple[int, int]:
    """The calls of Python and C functions, and the bytes that numpy and Python hold at most."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    tracemalloc.start()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return calls, peak


@pytest.mark.parametrize("options", [{}, {"segment_start": "episode", "tbptt_segments": 3}], ids=["default", "carried"])
@pytest.mark.parametrize("shape", ["one episode", "one step each"])
def test_calls_and_memory_before_the_first_step(folders: Path, shape: str, options: dict[str, Any]) -> None:
    costs = {}
    for size in (SMALL, SMALL, LARGE):  # the first imports
        name = f"size-{size}"
        if size not in costs:
            store = write(name, np.array([size]) if shape == "one episode" else np.ones(size, int))
        costs[size] = cost(lambda name=name: train(f"local/{name}", output=folders / name, training=options, **OPTIONS))
        shutil.rmtree(folders / name)
    (few, small), (many, large) = costs[SMALL], costs[LARGE]
    print(shape, options, few, many, small, large, store.file.nbytes)
    assert many < 1.1 * few
    assert large - small < 3 * store.file.nbytes


def test_calls_for_writing_short_episodes(folders: Path) -> None:
    episodes = [Episode(np.zeros((2, 3)), np.zeros((1, 2)), np.ones(1), True, False)] * LARGE
    costs = {
        size: cost(lambda size=size: write_store(f"local/short-{size}", episodes[:size])) for size in (SMALL, LARGE)
    }
    (few, _), (many, _) = costs.values()
    assert many - few < 60 * (LARGE - SMALL)


def test_limits_of_the_return_to_go_are_quantiles_by_timestep(folders: Path) -> None:
    """Against numpy, one timestep after the other; positive rewards of equal episodes weigh alike."""
    lengths = np.array([9, 40, 40, 3, 25, 1])
    store = write("lengths", lengths)
    to_go = store.returns_to_go()
    for start, stop in zip(store.offsets[:-1], store.offsets[1:], strict=True):
        np.testing.assert_allclose(to_go[start:stop], np.cumsum(store.rewards[start:stop][::-1])[::-1], atol=1e-4)
    weights = np.maximum(store.episode_returns, np.finfo(np.float32).tiny)
    expected = []
    for time in range(40):
        values = np.array([to_go[first + time] for first in store.offsets[:-1][lengths > time]], float)
        order, own = np.argsort(values), weights[lengths > time]
        below = np.cumsum(own[order]) - own[order]
        expected.append(np.interp(0.8 * below[-1], below, values[order]))
    acting, _ = return_to_go_limits(store, 0.8)
    np.testing.assert_allclose(acting if len(acting) > 1 else acting[0], expected if len(acting) > 1 else max(expected))
