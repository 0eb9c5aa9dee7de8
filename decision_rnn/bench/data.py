"""The cost of sampling a training batch, compared with the Decision Transformer's padded sampling."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from decision_rnn.bench.measure import Row, compare, measure
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


def bench_data(rounds: int = 20) -> list[Row]:
    """Time the sampling of one training batch from the 1M steps of hopper-medium, on one thread.

    The baseline is our re-implementation of the published Decision Transformer's padded sampling.

    Args:
        rounds: Number of timings of each; a timing is the mean over many batches.

    Returns:
        Rows `data/batch-<size>x<context>` and `data/padded-<size>x<context>`, in µs per batch; ratio: the baseline's
        time over the row's.
    """
    store, rows = open_dataset(DATASET).open(), []
    for batch_size, context in SIZES:
        ours, padded = (f"data/{kind}-{batch_size}x{context}" for kind in ("batch", "padded"))
        works: dict[str, Callable[[], object]] = {
            ours: StepStream(store, context, batch_size, seed=0).sample,
            padded: PaddedSampler(store, context, batch_size).sample,
        }
        with one_thread():
            rows += compare(measure(works, rounds, "timing batches"), padded, "µs", 1e6)
    return rows
