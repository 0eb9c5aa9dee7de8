"""The entries of observations and actions: a table of their values, and a plot of the episodes worth looking at."""

from itertools import pairwise
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box
from gymnasium.spaces.utils import flatten_space

from decision_rnn.data.dataset import Dataset
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.writing import chunk_edges, moments
from decision_rnn.utils.messages import pluralize

KINDS = ("observations", "actions")
ROWS, WIDTH, PANELS = 100, 32, 8
"""The most rows of a table, letters in a name, and entries in a plot."""
FORMATS = {"constant": ".1%", "outside": ".2%"}


def entry_statistics(store: EpisodeStore, kind: str) -> dict[str, np.ndarray]:
    """Statistics of every entry of the `observations` or `actions` over all steps of a dataset, each (entries,).

    `min`, `max`, `mean` and `std`; `constant`, the share of steps at which the value is that of the step before, NaN if
    no episode has two steps; and `outside`, the share of steps at which it is outside the bounds of its space.
    """
    values, resets = getattr(store, kind), store.table[:, store.columns["reset"]] == 1
    space = flatten_space(store.space(kind))
    low, high = np.array([-np.inf]), np.array([np.inf])
    if isinstance(space, Box) and space.shape == values.shape[1:]:  # text has entries that are not stored
        low, high = space.low, space.high
    constant, outside = np.zeros((2, values.shape[1]))
    for start, stop in pairwise(chunk_edges(store.offsets)):
        rows = values[start:stop]
        constant += ((rows[1:] == rows[:-1]) & ~resets[start + 1 : stop]).sum(0)
        outside += ((rows < low) | (rows > high)).sum(0)
    mean, std = moments(values, store.offsets)
    shares = {"constant": constant / (store.steps - len(store) or np.nan), "outside": outside / store.steps}
    return {"min": values.min(0), "max": values.max(0), "mean": mean, "std": std, **shares}


def format_entries(store: EpisodeStore) -> str:
    """A table with a row for every entry, at most `ROWS` of each kind."""
    lines = list[str]()
    for kind in KINDS:
        statistics = entry_statistics(store, kind)
        if not statistics["outside"].any():
            del statistics["outside"]
        size = len(statistics["min"])
        names = [name[:WIDTH] for name in store.labels(kind)[:ROWS]] or [""] * min(size, ROWS)
        width = max(map(len, (KINDS[0], *names)))
        lines += ["", f"  {kind:<{width + 4}}" + "".join(f"{key:>11}" for key in statistics)]
        for entry, name in enumerate(names):
            cells = (f"{each[entry]:>11{FORMATS.get(key, '.4g')}}" for key, each in statistics.items())
            lines.append(f"  {entry:>3} {name:<{width}}" + "".join(cells))
        if size > ROWS:
            lines.append(f"      and {size - ROWS} more")
    return "\n".join(lines)


def plot_dataset(dataset: Dataset, path: Path) -> None:
    """Plot entries over the steps of a few episodes of a dataset into a PNG file.

    The episodes are those of the lowest and the highest return and the most extreme one, in which an entry is farthest
    from its mean in standard deviations. The entries are those that are farthest from their means in these episodes.
    """
    from matplotlib.figure import Figure  # heavy

    store, returns = dataset.store, dataset.store.episode_returns
    values = np.concatenate([store.observations, store.actions], axis=1)
    sizes = zip(KINDS, (store.observation_dim, store.action_dim), strict=True)
    names = [name for kind, size in sizes for name in store.labels(kind) or [f"{kind[:-1]} {i}" for i in range(size)]]
    mean, std = moments(values, store.offsets)
    lowest, highest = (extreme.reduceat(values, store.offsets[:-1]) for extreme in (np.minimum, np.maximum))
    choices = np.concatenate([store.layout(kind).categorical for kind in KINDS])  # a rare choice is not extreme
    distances = np.maximum(mean - lowest, highest - mean) / np.where((std > 0) & ~choices, std, np.inf)
    low, high, extreme = (int(each.argmax()) for each in (-returns, returns, distances.max(axis=1)))
    titles = {low: f"lowest return, {returns[low]:.4g}", high: f"highest return, {returns[high]:.4g}"}
    titles[extreme] = f"{names[distances[extreme].argmax()][:WIDTH]} is {distances[extreme].max():.3g} sd from its mean"
    entries = np.sort(np.argsort(-distances[list(titles)].max(0), kind="stable")[:PANELS])

    figure = Figure(figsize=(4 + 3 * len(titles), len(entries) + 0.8), layout="constrained")
    panels = figure.subplots(len(entries), len(titles), sharex="col", sharey="row", squeeze=False)
    for column, (episode, title) in zip(panels.T, titles.items(), strict=True):
        steps = values[store.offsets[episode] : store.offsets[episode + 1], entries].T
        for panel, entry, series in zip(column, entries, steps, strict=True):
            panel.axhspan(mean[entry] - 2 * std[entry], mean[entry] + 2 * std[entry], color="0.93")
            panel.plot(series, color="C0" if entry < store.observation_dim else "C1", linewidth=1)
        column[0].set_title(f"episode {episode}: {title}", fontsize=9)
        column[-1].set_xlabel("step")
    for panel, entry in zip(panels[:, 0], entries, strict=True):
        panel.set_ylabel(names[entry][:WIDTH], rotation=0, ha="right", va="center", fontsize=8)
    size = f"{pluralize(len(store), 'episode')}, {pluralize(store.steps, 'step')}"
    figure.suptitle(f"{dataset.name}: {size}", fontsize=11)
    figure.supxlabel("blue: observations, orange: actions, grey: mean ± 2 standard deviations", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format=path.suffix[1:] or "png", dpi=150)
