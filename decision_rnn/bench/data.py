"""The cost of sampling a training batch, compared with padded sampling: the Decision Transformer's and d3rlpy's."""

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from decision_rnn.bench.d3rlpy import running_d3rlpy
from decision_rnn.bench.measure import Row, Timing, check_rounds, compare, interleaved, timed
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.evaluation.rollout import one_thread

DATASET = "hopper-medium"
SIZES = ((64, 20), (8, 1000))


class PaddedSampler:
    """Samples padded slices of single episodes, as get_batch of the published Decision Transformer does.

    Our re-implementation of github.com/kzl/decision-transformer, gym/experiment.py: an episode is drawn with
    probability proportional to its length, and a slice begins anywhere in it; returns-to-go are summed from the rewards
    in a loop; every array is cut, padded on the left to `context` and concatenated.
    """

    def __init__(self, store: EpisodeStore, context: int, batch_size: int, return_scale: float = 1000.0) -> None:
        self.context, self.batch_size, self.return_scale = context, batch_size, return_scale
        self.mean, self.std = store.observation_mean, store.observation_std + 1e-6
        self.probabilities = store.episode_lengths / store.steps
        spans = zip(store.offsets[:-1], store.offsets[1:], strict=True)
        self.episodes = [
            (store.observations[start:end], store.actions[start:end], store.rewards[start:end]) for start, end in spans
        ]
        self.random = np.random.default_rng(0)

    def sample(self) -> tuple[Tensor, ...]:
        """Observation, action, reward, return-to-go, (batch, context, ...), timestep and mask, (batch, context)."""
        drawn = self.random.choice(len(self.episodes), self.batch_size, p=self.probabilities)
        slices = [self._slice(*self.episodes[i]) for i in drawn]
        columns = [torch.from_numpy(np.concatenate(parts)) for parts in zip(*slices, strict=True)]
        observation, action, reward, return_to_go, timestep, mask = columns
        floats = (part.float() for part in (observation, action, reward, return_to_go))
        return *floats, timestep.long(), mask

    def _slice(self, observations: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> list[np.ndarray]:
        start = int(self.random.integers(len(rewards)))
        end = min(start + self.context, len(rewards))
        returns_to_go = np.zeros_like(rewards[start:])
        total = 0.0
        for i in reversed(range(len(returns_to_go))):
            total = rewards[start + i] + total
            returns_to_go[i] = total
        parts = [
            (self._pad(observations[start:end]) - self.mean) / self.std,
            self._pad(actions[start:end], -10.0),
            self._pad(rewards[start:end, None]),
            self._pad(returns_to_go[: end - start, None]) / self.return_scale,
            self._pad(np.arange(start, end)),
            self._pad(np.ones(end - start)),
        ]
        return [part[None] for part in parts]

    def _pad(self, values: np.ndarray, fill: float = 0.0) -> np.ndarray:
        missing = self.context - len(values)
        return np.concatenate([np.full((missing, *values.shape[1:]), fill), values])


def bench_data(rounds: int = 20, d3rlpy: Path | None = None) -> list[Row]:
    """Time the sampling of one training batch from the 1M steps of hopper-medium, on one thread.

    The baseline is our re-implementation of the published Decision Transformer's padded sampling or, if `d3rlpy` is
    given, d3rlpy's `sample_trajectory_batch` on the same episodes.

    Args:
        rounds: Number of timings of each; a timing is the mean over many batches.
        d3rlpy: Python interpreter of an environment with d3rlpy, whose dependencies conflict with ours.

    Returns:
        Rows `data/batch-<size>x<context>`, `data/padded-<size>x<context>` and, with d3rlpy,
        `data/d3rlpy-<size>x<context>`, in µs per batch; ratio: the baseline's time over the row's.
    """
    check_rounds(rounds)
    store = open_dataset(DATASET).open()
    timings: dict[str, Timing] = {}
    with ExitStack() as stack:
        stack.enter_context(one_thread())
        theirs = stack.enter_context(running_d3rlpy(d3rlpy, store)) if d3rlpy else None
        for batch_size, context in SIZES:
            size = f"{batch_size}x{context}"
            stream = StepStream(store, context, batch_size, seed=0)
            timings[f"data/batch-{size}"] = timed(stream.sample, calls=200)
            timings[f"data/padded-{size}"] = timed(PaddedSampler(store, context, batch_size).sample, calls=2)
            if theirs:
                timings[f"data/d3rlpy-{size}"] = theirs.timing(batch_size, context, batches=10)
        seconds = interleaved(timings, rounds, warmup=2, description="timing batches")
    rows = []
    for batch_size, context in SIZES:
        size = f"{batch_size}x{context}"
        values = {name: 1e6 * value for name, value in seconds.items() if name.endswith(f"-{size}")}
        rows += compare(values, f"data/{'d3rlpy' if d3rlpy else 'padded'}-{size}", "µs")
    return rows
