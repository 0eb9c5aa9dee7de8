"""Continues from a behaviour policy by random search, where SAC and PPO make it worse, with regular snapshots.

python scripts/search_behavior.py runs/behavior/hopper-seed0-0150k.safetensors --steps 6_000_000

Augmented random search (Mania, Guy and Recht, "Simple random search of static policies is competitive for reinforcement
learning", 2018, version V1-t) of the layer of the mean, along the first principal components of its input: a few dozen
numbers instead of several hundred, so that a few directions suffice. The other layers and the noise are unchanged. As
in the paper, the reward for being alive is not part of the objective.
"""

import argparse
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file
from tqdm import tqdm

from decision_rnn.data.standin.collection import Policy
from decision_rnn.data.store.episode import Episode
from decision_rnn.environments.environments import play_episodes

COMPONENTS = 12
"""They hold nine tenths of the variance of the input of hopper's last layer."""
SPREAD, STEP = 0.05, 0.02
"""Standard deviation of what a direction adds to the mean before tanh, and step size along the best directions."""
BEST = 0.5  # share of the directions used for a step
ALIVE = 1.0  # hopper's and walker's reward per step for being alive
FIRST, WATCHED = 900_000, 1_000_000  # seeds of the first episodes, and of those that a snapshot is scored on


class Search:
    """A policy whose last layer can be moved along components; `steps` counts environment steps."""

    def __init__(self, actor: Path, environment: str, noise: float) -> None:
        self.policy, self.environment, self.steps = Policy(actor, noise), environment, 0
        self.weight, self.bias = self.policy.weights["mean.weight"], self.policy.weights["mean.bias"]
        read = [
            self.policy.features(observation)
            for i in range(5)
            for observation in self.play(FIRST + i).observations[:-1]
        ]
        self.centre = np.mean(read, axis=0)
        _, values, vectors = np.linalg.svd(np.array(read) - self.centre, full_matrices=False)
        self.components = vectors[:COMPONENTS] * np.sqrt(len(read)) / values[:COMPONENTS, None]
        self.place = np.zeros((len(self.bias), COMPONENTS + 1))

    def put(self, place: np.ndarray) -> None:
        """Move the layer to a place, (action components, COMPONENTS + 1), the last column for the bias."""
        slopes = place[:, :-1] @ self.components
        self.policy.weights["mean.weight"] = np.asarray(self.weight + slopes, np.float32)
        self.policy.weights["mean.bias"] = np.asarray(self.bias + place[:, -1] - slopes @ self.centre, np.float32)

    def play(self, seed: int) -> Episode:
        """Play an episode; the seed also determines the noise."""
        noise = np.random.default_rng(seed)
        (episode,) = play_episodes(self.environment, lambda seen: self.policy.sample(seen, noise), 1, seed)
        self.steps += len(episode.rewards)
        return episode

    def score(self, place: np.ndarray, seed: int) -> float:
        self.put(place)
        return float((self.play(seed).rewards - ALIVE).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("actor", type=Path, help="a snapshot of scripts/train_behavior.py")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=6_000_000, help="environment steps")
    parser.add_argument("--every", type=int, default=10, help="updates between snapshots, each scored on 20 episodes")
    parser.add_argument("--noise", type=float, default=0.25, help="of the policy, over its own")
    parser.add_argument("--directions", type=int, default=16, help="tried forwards and backwards for each update")
    parser.add_argument("--out", type=Path, default=Path("runs/behavior"))
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    with safe_open(options.actor, "np") as file:
        metadata = dict(file.metadata())
    search, generator = (
        Search(options.actor, metadata["environment"], options.noise),
        np.random.default_rng(options.seed),
    )
    metadata["algorithm"] += (
        f"; {metadata['environment_steps']} steps; then augmented random search along {COMPONENTS} components: "
        f"seed={options.seed}, noise={options.noise}, directions={options.directions}, spread={SPREAD}, step={STEP}"
    )
    bar = tqdm(total=options.steps, desc=f"{options.actor.stem}-ars{options.seed}", unit="step", disable=None)
    updates, episode = 0, 0
    while search.steps < options.steps:
        tried = []
        for _ in range(options.directions):
            direction = generator.standard_normal(search.place.shape)
            ways = [search.score(search.place + sign * SPREAD * direction, episode) for sign in (1, -1)]
            tried.append((*ways, direction))
            episode += 1
        best = sorted(tried, key=lambda one: -max(one[:2]))[: max(int(BEST * options.directions), 1)]
        deviation = np.std([one[:2] for one in best]) + 1e-6
        step = sum((forwards - backwards) * direction for forwards, backwards, direction in best)
        search.place = search.place + STEP / (len(best) * deviation) * step
        updates += 1
        if updates % options.every == 0:
            search.put(search.place)
            taken = search.steps
            returns = [search.play(WATCHED + i).rewards.sum() for i in range(20)]
            name = f"{options.actor.stem}-ars{options.seed}-{updates:04d}.safetensors"
            save_file(search.policy.weights, options.out / name, metadata | {"environment_steps": str(taken)})
            tqdm.write(f"{name}: {np.mean(returns):.0f} ± {np.std(returns):.0f}")
        bar.update(search.steps - bar.n)


if __name__ == "__main__":
    main()
