"""Limits of the return-to-go, from a dataset."""

import numpy as np

from decision_rnn.data.store import EpisodeStore


def return_to_go_limits(store: EpisodeStore, quantile: float) -> tuple[np.ndarray, np.ndarray]:
    """The largest return-to-go of the acting agent, and of training data, from a quantile q of a dataset.

    Acting, the limit is (1,), the largest over timesteps of the q quantile of the returns-to-go of the episodes that
    last that long, weighted by their returns. It is the same at all timesteps: late ones have only the few episodes
    that are about to end, and a lower limit would make the agent end its own.

    Training data are limited to a little more, so that a part of the best of them shows what to do at the limit. That
    limit is (longest episode,), the largest of three at each timestep: the weighted quantile (1 + q) / 2, the
    unweighted quantile 1 - 0.3 (1 - q), and the weighted q quantiles of the timesteps to come, since the first steps of
    the few long episodes of a replay buffer count among those of the many short ones.

    Where returns-to-go rise over time, as where rewards are costs, both limits are those of each timestep.

    Returns:
        Both limits, float64.
    """
    to_go, returns, lengths = store.returns_to_go(), store.episode_returns, store.episode_lengths
    order = np.argsort(-lengths, kind="stable")
    starts, lengths, returns = store.offsets[:-1][order], lengths[order], returns[order]
    counts = np.searchsorted(-lengths, -np.arange(lengths[0]), side="left")  # episodes longer than t
    by_timestep = [to_go[starts[:count] + t] for t, count in enumerate(counts)]
    # Returns below zero weigh nothing, unless no return is above: then the weight is how far one is above the worst.
    weights = np.maximum(returns if returns.max() > 0 else returns - returns.min(), np.finfo(np.float32).tiny)

    def quantiles(level: float, weights: np.ndarray) -> np.ndarray:
        return np.array([weighted_quantile(values, weights[: len(values)], level) for values in by_timestep])

    acting, training = quantiles(quantile, weights), quantiles((1 + quantile) / 2, weights)
    training = np.maximum(training, quantiles(1 - 0.3 * (1 - quantile), np.ones(len(weights))))
    if acting[-1] > acting[0]:
        return acting, training
    return acting.max(keepdims=True), np.maximum(training, np.maximum.accumulate(acting[::-1])[::-1])


def weighted_quantile(values: np.ndarray, weights: np.ndarray, level: float) -> float:
    """The weighted quantile between the smallest and the largest value; with equal weights, `np.quantile`."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - weights[order]
    return float(np.interp(level * below[-1], below, values[order]))
