"""Continues training a behaviour policy with PPO, when SAC has become slow, with regular snapshots of the actor.

pip install -e ".[train-behavior]"
python scripts/refine_behavior.py HalfCheetah-v5 runs/behavior/halfcheetah-seed0-0360k.safetensors

The actor keeps its layers; the standard deviation of its noise becomes one learnt number per action, the same in all
states. The critic starts from scratch and is trained alone first, so that its errors do not undo what the actor can do.
"""

import argparse
import importlib.metadata
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize
from torch import Tensor, nn
from train_behavior import Snapshots

ENVIRONMENTS, ROLLOUT = 8, 2048  # ROLLOUT: steps per environment between updates
SATURATED = 20.0  # its tanh is 1 in float32; stable-baselines3 requires a bound
CRITIC_ALONE = 8  # rollouts during which the actor is frozen


class Squashed(gym.ActionWrapper):
    """Takes actions before their tanh, where PPO's Gaussian is, as in `decision_rnn.data.standin.collection.Policy`."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.action_space = gym.spaces.Box(-SATURATED, SATURATED, env.action_space.shape, np.float32)

    def action(self, action: np.ndarray) -> np.ndarray:
        return np.tanh(action)


def layers_of(model: PPO) -> dict[str, nn.Linear]:
    """The actor's layers by their names in the file."""
    hidden = model.policy.mlp_extractor.policy_net
    return {"hidden.0": hidden[0], "hidden.1": hidden[2], "mean": model.policy.action_net}


def actor_of(model: PPO) -> dict[str, Tensor]:
    """The actor's tensors by their names in the file, whose log_std is a linear layer: here with zero weights."""
    tensors = {
        f"{name}.{part}": getattr(layer, part)
        for name, layer in layers_of(model).items()
        for part in ("weight", "bias")
    }
    spread = model.policy.log_std
    return tensors | {"log_std.weight": torch.zeros_like(tensors["mean.weight"]), "log_std.bias": spread}


class CriticFirst(BaseCallback):
    """Freezes the actor for the first rollouts."""

    def __init__(self) -> None:
        super().__init__()
        self.rollouts = 0

    def _on_rollout_start(self) -> None:
        learns = self.rollouts >= CRITIC_ALONE
        self.model.policy.log_std.requires_grad_(learns)
        for layer in layers_of(self.model).values():
            layer.requires_grad_(learns)
        self.rollouts += 1

    def _on_step(self) -> bool:
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", help="the actor's own, a Gymnasium id")
    parser.add_argument("actor", type=Path, help="a snapshot of scripts/train_behavior.py")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10_000_000, help="environment steps")
    parser.add_argument("--every", type=int, default=500_000, help="environment steps between snapshots")
    parser.add_argument("--std", type=float, default=0.2, help="of the noise, before the tanh, at the start")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--target-kl", type=float, default=0.02, help="an update stops above one and a half times this")
    parser.add_argument("--out", type=Path, default=Path("runs/behavior"))
    options = parser.parse_args()

    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    environments = make_vec_env(options.environment, ENVIRONMENTS, seed=options.seed, wrapper_class=Squashed)
    model = PPO(
        "MlpPolicy",
        VecNormalize(environments, norm_obs=False, clip_reward=np.inf),
        seed=options.seed,
        n_steps=ROLLOUT,
        batch_size=512,
        n_epochs=8,
        clip_range=0.1,
        target_kl=options.target_kl,
        learning_rate=options.learning_rate,
        policy_kwargs={
            "net_arch": [256, 256],
            "activation_fn": nn.ReLU,
            "log_std_init": float(np.log(options.std)),
            "optimizer_kwargs": {"fused": True},
        },
    )
    before = load_file(options.actor)
    for name, layer in layers_of(model).items():
        layer.load_state_dict({part: before[f"{name}.{part}"] for part in ("weight", "bias")})
    with safe_open(options.actor, "pt") as file:
        metadata = dict(file.metadata())
    release = importlib.metadata.version("stable-baselines3")
    metadata["algorithm"] += (
        f"; {metadata['environment_steps']} steps; then PPO, stable-baselines3 {release}, seed={options.seed}, "
        f"environments={ENVIRONMENTS}, n_steps={ROLLOUT}, std={options.std}, learning_rate={options.learning_rate}, "
        f"target_kl={options.target_kl}"
    )
    prefix = f"{options.actor.stem}-ppo{options.seed}"
    snapshots = Snapshots(options.every, options.steps, options.out, prefix, metadata, actor_of)
    model.learn(options.steps, [CriticFirst(), snapshots])


if __name__ == "__main__":
    main()
