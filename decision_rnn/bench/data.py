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
from decision_rnn.parsing import PositiveInt

DATASET = "hopper-medium"
SIZES = ((64, 20), (8, 1000))


class PaddedSampler:
    """Samples padded slices of single episodes, as get_batch of the published Decision Transformer does.

    Our re-implementation of github.com/kzl/decision-transformer, gym/experiment.py: an episode is drawn with
    probability proportional to its length, and a slice begins anywhere in it; returns-to-go are summed from the rewards
    in a loop; every array is cut, padded on the left to `context` and concatenated.
    """

    def __init__(self, store: EpisodeStore, context: int, batch_size: int) -> None:
        self.context, self.batch_size, self.random = context, batch_size, np.random.default_rng(0)
        self.mean, self.std = store.observation_mean, store.observation_std + 1e-6
        self.probabilities = store.episode_lengths / store.steps
        columns = (store.observations, store.actions, store.rewards)
        self.episodes = list(zip(*(np.split(column, store.offsets[1:-1]) for column in columns), strict=True))

    def sample(self) -> tuple[Tensor, ...]:
        """Observation, action, reward, return-to-go, (batch, context, ...), timestep and mask, (batch, context)."""
        drawn = self.random.choice(len(self.episodes), self.batch_size, p=self.probabilities)
        slices = [self._slice(*self.episodes[i]) for i in drawn]
        return tuple(torch.from_numpy(np.concatenate(parts)).float() for parts in zip(*slices, strict=True))

    def _slice(self, observations: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> list[np.ndarray]:
        start = int(self.random.integers(len(rewards)))
        end = min(start + self.context, len(rewards))
        returns_to_go, total = np.zeros_like(rewards), 0.0
        for i in reversed(range(start, len(rewards))):
            total = rewards[i] + total
            returns_to_go[i] = total
        normalised = (observations[start:end] - self.mean) / self.std
        parts = [normalised, actions[start:end], rewards[start:end, None], returns_to_go[start:end, None] / 1000]
        parts += [np.arange(start, end), np.ones(end - start)]
        missing, fills = self.context - (end - start), (0, -10, 0, 0, 0, 0)
        return [
            np.concatenate([np.full((missing, *part.shape[1:]), float(fill)), part])[None]
            for part, fill in zip(parts, fills, strict=True)
        ]


def bench_data(rounds: PositiveInt = 20) -> list[Row]:
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
