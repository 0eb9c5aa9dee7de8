"""Trains a behaviour policy for the stand-in datasets from scratch with SAC, with regular snapshots of the actor.

pip install -e ".[train-behavior]"
python scripts/train_behavior.py Walker2d-v5 --seed 0 --steps 600000 --out runs/behavior

The actors are files as in decision_rnn/data/behavior; a file *-learning.csv beside them has the return of the
latest training episodes at each snapshot. The defaults are stable-baselines3's own, one update of 256 transitions per
environment step. Two options together set the number of updates: all environments take a step, then come
`--gradient-steps` updates, so that `--environments 2 --gradient-steps 1` is one update for two environment steps, as is
`--environments 4 --gradient-steps 2 --bf16`, which takes half the default's time.
"""

import argparse
import importlib.metadata
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from torch import Tensor
from tqdm import tqdm

from decision_rnn.utils.files import new_file

LEARNING_STARTS = 10_000  # environment steps of uniform actions before the first update


def actor_of(model: SAC) -> dict[str, Tensor]:
    """The actor's tensors by their names in the file that `decision_rnn.data.sources.standin.Actor` reads."""
    actor = model.policy.actor
    layers = {
        "hidden.0": actor.latent_pi[0],
        "hidden.1": actor.latent_pi[2],
        "mean": actor.mu,
        "log_std": actor.log_std,
    }
    parts = ("weight", "bias")
    return {f"{name}.{part}": getattr(layer, part).detach().clone() for name, layer in layers.items() for part in parts}


class Snapshots(BaseCallback):
    """Saves the actor every `every` environment steps, with a line in *-learning.csv and a progress bar."""

    def __init__(self, every: int, steps: int, folder: Path, prefix: str, metadata: dict[str, str]) -> None:
        super().__init__()
        self.every, self.folder, self.prefix, self.metadata = every, folder, prefix, metadata
        self.bar = tqdm(total=steps, desc=prefix, unit="step", unit_scale=True, disable=None)
        self.log = folder / f"{prefix}-learning.csv"
        self.log.write_text("environment_steps,return_mean,length_mean\n")

    def _on_step(self) -> bool:
        self.bar.update(self.training_env.num_envs)
        before = self.num_timesteps - self.training_env.num_envs
        if before // self.every < self.num_timesteps // self.every:
            self._save(self.num_timesteps // self.every * self.every)
        return True

    def _save(self, steps: int) -> None:
        thousands = f"{steps / 1000:06.1f}".removesuffix(".0").zfill(4)
        path = self.folder / f"{self.prefix}-{thousands}k.safetensors"
        with new_file(path) as temporary:
            save_file(actor_of(self.model), temporary, self.metadata | {"environment_steps": str(steps)})
        episodes = list(self.model.ep_info_buffer or [])[-20:]
        if episodes:
            means = (f"{np.mean([episode[key] for episode in episodes]):.1f}" for key in ("r", "l"))
            with self.log.open("a") as file:
                file.write(f"{','.join((str(steps), *means))}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", help="a Gymnasium id: Hopper-v5, HalfCheetah-v5, Walker2d-v5")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=500_000, help="environment steps")
    parser.add_argument("--every", type=int, default=5_000, help="environment steps between snapshots")
    parser.add_argument("--environments", type=int, default=1, help="environments stepped together")
    parser.add_argument("--gradient-steps", type=int, default=1, help="updates each time they have stepped")
    parser.add_argument("--bf16", action="store_true", help="matrix products in bfloat16, where the CPU has them")
    parser.add_argument("--out", type=Path, default=Path("runs/behavior"))
    options = parser.parse_args()

    torch.set_num_threads(1)
    if options.bf16:
        torch.set_float32_matmul_precision("medium")
    options.out.mkdir(parents=True, exist_ok=True)
    model = SAC(
        "MlpPolicy",
        make_vec_env(options.environment, options.environments),
        seed=options.seed,
        learning_starts=LEARNING_STARTS,
        gradient_steps=options.gradient_steps,
        policy_kwargs={"optimizer_kwargs": {"fused": True}},
    )
    release = importlib.metadata.version("stable-baselines3")
    metadata = {
        "environment": options.environment,
        "seed": str(options.seed),
        "algorithm": f"SAC, stable-baselines3 {release}, learning_starts={LEARNING_STARTS}, "
        f"environments={options.environments}, gradient_steps={options.gradient_steps}, bf16={options.bf16}",
        "hidden": "ReLU",
        "action": "tanh(mean + exp(clip(log_std, -20, 2)) * standard normal)",
    }
    prefix = f"{options.environment.partition('-')[0].lower()}-seed{options.seed}"
    model.learn(options.steps, Snapshots(options.every, options.steps, options.out, prefix, metadata))


if __name__ == "__main__":
    main()
