"""Goes on from a behaviour policy by augmented random search, where SAC and PPO lose what they had.

pip install -e ".[train-behavior]"
python scripts/search_behavior.py runs/behavior/hopper-seed0-0150k.safetensors --steps 10_000_000

Mania, Guy and Recht, "Simple random search of static policies is competitive for reinforcement learning" (2018),
algorithm 1 (V1-t), on the last layer of the actor's mean alone; the two that feed it and the noise stay as they are. Each
direction is tried forwards and backwards on episodes with the same starts and the same noise. A snapshot every few
steps, with a line of its return.
"""

import argparse
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file
from tqdm import tqdm

from decision_rnn.data.environments import play_episodes
from decision_rnn.data.standin.policies import Policy

LAYER = ("mean.weight", "mean.bias")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("actor", type=Path, help="a snapshot of scripts/train_behavior.py")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10_000_000, help="environment steps")
    parser.add_argument("--every", type=int, default=500_000, help="environment steps between snapshots")
    parser.add_argument("--noise", type=float, default=0.25, help="of the policy, over its own")
    parser.add_argument("--directions", type=int, default=16, help="tried each time")
    parser.add_argument("--best", type=int, default=8, help="of them, which the step is made of")
    parser.add_argument("--spread", type=float, default=0.01, help="standard deviation of a direction's numbers")
    parser.add_argument("--step-size", type=float, default=0.01)
    parser.add_argument("--out", type=Path, default=Path("runs/behavior"))
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    with safe_open(options.actor, "np") as file:
        metadata = dict(file.metadata())
    metadata["algorithm"] += (
        f"; {metadata['environment_steps']} steps; then augmented random search of the mean's layer, "
        f"seed={options.seed}, noise={options.noise}, directions={options.directions}, best={options.best}, "
        f"spread={options.spread}, step_size={options.step_size}"
    )
    policy, generator = Policy(options.actor, options.noise), np.random.default_rng(options.seed)
    steps, saved, episode = 0, 0, 0
    bar = tqdm(total=options.steps, desc=f"{options.actor.stem}-ars{options.seed}", unit="step", disable=None)

    def play(seed: int) -> float:
        """An episode's return."""
        nonlocal steps
        noise = np.random.default_rng(seed)
        (played,) = play_episodes(metadata["environment"], lambda seen: policy.sample(seen, noise), 1, seed)
        steps += len(played.rewards)
        bar.update(len(played.rewards))
        return float(played.rewards.sum())

    while steps < options.steps:
        centre = [policy.weights[name] for name in LAYER]
        tried = []
        for _ in range(options.directions):
            direction = [generator.standard_normal(part.shape, np.float32) for part in centre]
            returns = []
            for sign in (1, -1):
                for name, part, way in zip(LAYER, centre, direction, strict=True):
                    policy.weights[name] = part + sign * options.spread * way
                returns.append(play(episode))
            episode += 1
            tried.append((*returns, direction))
        tried = sorted(tried, key=lambda one: -max(one[:2]))[: options.best]
        scale = options.step_size / (options.best * (np.std([one[:2] for one in tried]) + 1e-6))
        for i, (name, part) in enumerate(zip(LAYER, centre, strict=True)):
            step = sum((forwards - backwards) * way[i] for forwards, backwards, way in tried)
            policy.weights[name] = np.asarray(part + scale * step, np.float32)
        if steps // options.every > saved:
            saved = steps // options.every
            path = options.out / f"{options.actor.stem}-ars{options.seed}-{saved * options.every // 1000:05d}k.safetensors"
            save_file(policy.weights, path, metadata | {"environment_steps": str(steps)})
            tqdm.write(f"{steps} {np.mean([play(1_000_000 + i) for i in range(10)]):.0f}")


if __name__ == "__main__":
    main()
