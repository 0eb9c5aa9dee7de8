"""Limits of the return-to-go, from a dataset."""

import numpy as np

from decision_rnn.data.store import EpisodeStore

BLOCK = 8_192
"""The number of returns-to-go whose quantiles are computed at once."""


def return_to_go_limits(store: EpisodeStore, quantile: float) -> tuple[np.ndarray, np.ndarray]:
    """The largest return-to-go of the acting agent, and of training data, from a quantile q of a dataset.

    Acting, the limit is (1,), the largest over timesteps of the q quantile of the returns-to-go of the episodes that
    last that long, weighted by their returns. It is the same at all timesteps: late ones have only the few episodes
    that are about to end, and a lower limit would make the agent end its own.

    Training data are limited to a little more, so that a part of the best of them shows what to do at the limit. That
    limit is (longest episode,), the largest of three at each timestep: the weighted quantile (1 + q) / 2, the
    unweighted quantile 1 - 0.3 (1 - q), and the weighted q quantiles of the timesteps to come, since the first steps of
    the few long episodes of a replay buffer count among those of the many short ones.

    Where returns-to-go rise within the weighted episodes, as where rewards are costs, both limits are those of each
    timestep. Both are float64.
    """
    to_go, returns, lengths = store.returns_to_go(), store.episode_returns, store.episode_lengths
    order = np.argsort(-lengths, kind="stable")
    starts, lengths, returns = store.offsets[:-1][order], lengths[order], returns[order]
    # Returns below zero weigh nothing, unless no return is above: then the weight is how far one is above the worst.
    weights = np.maximum(returns if returns.max() > 0 else returns - returns.min(), np.finfo(np.float32).tiny)
    acting, training, unweighted = np.empty((3, lengths[0]))
    start = 0
    while start < lengths[0]:  # timesteps that equally many episodes reach, a block at a time
        count = np.searchsorted(-lengths, -start, side="left")  # episodes longer than start
        block = slice(start, min(int(lengths[count - 1]), start + max(1, BLOCK // int(count))))
        values = to_go[starts[:count] + np.arange(block.start, block.stop)[:, None]]
        acting[block], training[block] = weighted_quantiles(values, weights[:count], quantile, (1 + quantile) / 2)
        unweighted[block], *_ = weighted_quantiles(values, np.ones(count), 1 - 0.3 * (1 - quantile))
        start = block.stop
    training = np.maximum(training, unweighted)
    if weights @ to_go[store.offsets[1:] - 1][order] > weights @ returns:
        return acting, training
    return acting.max(keepdims=True), np.maximum(training, np.maximum.accumulate(acting[::-1])[::-1])


def weighted_quantiles(values: np.ndarray, weights: np.ndarray, *levels: float) -> list[np.ndarray]:
    """For every level, the weighted quantile of each row of values, between its smallest and its largest; with equal
    weights, `np.quantile`. Each is `np.interp` along the row."""
    order = np.argsort(values, axis=1)
    values, weights = np.take_along_axis(values, order, 1).astype(np.float64), weights[order]
    below = np.zeros(values.shape)
    np.cumsum(weights[:, :-1], axis=1, out=below[:, 1:])
    rows, last = np.arange(len(values)), values.shape[1] - 1
    quantiles = []
    for level in levels:
        position = level * below[:, -1]
        left = (below <= position[:, None]).sum(axis=1) - 1
        right = np.minimum(left + 1, last)
        distance, rise = below[rows, right] - below[rows, left], values[rows, right] - values[rows, left]
        slope = np.divide(rise, distance, out=np.zeros_like(rise), where=distance > 0)
        quantiles.append(slope * (position - below[rows, left]) + values[rows, left])
    return quantiles
