"""How well past actions alone predict the next one, for each dataset. Where they do, an agent with a memory can lower
its loss by repeating itself: Wen et al., "Fighting Copycat Agents in Behavioral Cloning from Observation
Histories" (2020).

    python scripts/past_actions.py ogbench/pointmaze-medium-navigate-v0 ogbench/cube-single-play-v0

Prints a table: the share of the actions' variance, in the tenth of the episodes that was not fitted, which least
squares explains from the last 1, 2 and 10 actions of the same episode.
"""

import argparse

import numpy as np

from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.store.episode_store import EpisodeStore

HISTORIES = (1, 2, 10)
EPISODES = 200


def explained(episodes: list[np.ndarray], history: int) -> float:
    """The share of the variance of actions, episodes of (steps, entries), that those of `history` steps before explain,
    in every tenth episode, by least squares over the others."""
    inputs, outputs, held_out = [], [], []
    for index, actions in enumerate(episodes):
        count = len(actions) - history
        if count > 0:
            past = [actions[step : step + count] for step in range(history)]
            inputs.append(np.concatenate([*past, np.ones((count, 1))], axis=1))
            outputs.append(actions[history:])
            held_out += [index % 10 == 9] * count
    x, y, test = np.concatenate(inputs), np.concatenate(outputs), np.array(held_out)
    weights, *_ = np.linalg.lstsq(x[~test], y[~test], rcond=None)
    return 1 - float(np.square(y[test] - x[test] @ weights).sum() / np.square(y[test] - y[test].mean(0)).sum())


def actions_of(store: EpisodeStore) -> list[np.ndarray]:
    """The actions of the first episodes of a store."""
    starts = zip(store.offsets[:-1], store.offsets[1:], strict=True)
    return [np.asarray(store.actions[first:last], np.float64) for first, last in list(starts)[:EPISODES]]


def main() -> None:
    """Print a row for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", help="names of datasets")
    names = parser.parse_args().datasets
    print(f"| variance explained by | {' | '.join(f'the last {history}' for history in HISTORIES)} |")
    print("| --- |" + " --- |" * len(HISTORIES))
    for name in names:
        episodes = actions_of(open_dataset(name).open())
        print(f"| {name} | {' | '.join(f'{explained(episodes, history):.0%}' for history in HISTORIES)} |")


if __name__ == "__main__":
    main()
