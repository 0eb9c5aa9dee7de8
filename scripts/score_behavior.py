"""Prints the returns of behaviour policies with their own noise, to choose a stand-in's: a Markdown table.

python scripts/score_behavior.py runs/behavior/halfcheetah-seed3-01*.safetensors --episodes 20
"""

import argparse
from pathlib import Path

import numpy as np
from results_folder import Made
from safetensors import safe_open
from tqdm import tqdm

from decision_rnn.data.standin.collection import Policy
from decision_rnn.environments.environments import play_episodes

HEAD = "| snapshot | episodes | return, mean ± sd | min..max | mean length |\n| --- | --- | --- | --- | --- |"


def row(path: Path, episodes: int, seed: int) -> str:
    """A snapshot's line: its undiscounted returns and its episodes' lengths, in the environment it was trained in."""
    with safe_open(path, "np") as file:
        environment_id = file.metadata()["environment"]
    policy, generator = Policy(path), np.random.default_rng(seed)
    played = play_episodes(environment_id, lambda observation: policy.sample(observation, generator), episodes, seed)
    rewards = [episode.rewards for episode in tqdm(played, path.stem, episodes, unit="episode", disable=None)]
    returns = np.array([values.sum() for values in rewards])
    length = np.mean([len(values) for values in rewards])
    return (
        f"| {path.stem} | {episodes} | {returns.mean():.0f} ± {returns.std():.0f} | "
        f"{returns.min():.0f}..{returns.max():.0f} | {length:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snapshots", type=Path, nargs="+", help="files of scripts/train_behavior.py")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the noise; episode i begins with reset(seed + i)")
    options = parser.parse_args()
    made = Made.here([options.seed])
    print(HEAD)
    for path in options.snapshots:
        print(row(path, options.episodes, options.seed), flush=True)
    print(f"\n{made}")


if __name__ == "__main__":
    main()
