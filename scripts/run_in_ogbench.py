"""Run an exported agent in OGBench's own environment, with NumPy, onnxruntime and ogbench alone, without this package
or torch. It prints the success in percent over OGBench's five tasks, which take turns.

    decision-rnn export runs/cube --output cube.onnx
    python scripts/run_in_ogbench.py cube.onnx --episodes 50
"""

import argparse
import json

import gymnasium
import numpy as np
import ogbench
import onnxruntime

TASKS = 5


class Policy:
    """The policy of a file, for one episode at a time; docs/tutorials/deploy.md describes its inputs and outputs."""

    def __init__(self, path: str) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options)
        self.metadata = json.loads(self.session.get_modelmeta().custom_metadata_map["decision_rnn"])
        self.dataset = self.metadata["training"]["config"]["dataset"].removeprefix("ogbench/")
        self.size = self.metadata["observation"]["size"]
        self.outputs = [output.name for output in self.session.get_outputs()]
        self.reset()

    def reset(self) -> None:
        parts = self.metadata["state"]
        self.state = {part["input"]: np.zeros((1, *part["shape"]), part["dtype"]) for part in parts}
        self.first = True

    def act(self, observation: np.ndarray, reward: float) -> np.ndarray:
        inputs = {
            "obs": observation[None].astype(np.float32),
            "reward": np.array([reward], np.float32),
            "reset": np.array([self.first]),
            "target_return": np.array([self.metadata["target_return"]["value"]], np.float32),
        }
        outputs = dict(zip(self.outputs, self.session.run(None, inputs | self.state), strict=True))
        self.state = {part["input"]: outputs[part["output"]] for part in self.metadata["state"]}
        self.first = False
        return outputs["actions"][0]


def observed(environment: gymnasium.Env, state: np.ndarray, goal: np.ndarray, size: int) -> np.ndarray:
    """The policy's observation, (size,): the achieved goal, the desired one and, with oracle representations, the
    state."""
    if size == len(state) + len(goal):
        return np.concatenate([state, goal])
    task = environment.unwrapped
    is_maze = hasattr(task, "get_oracle_rep")  # whose method is that of the goal
    return np.concatenate([state[:2] if is_maze else task.compute_oracle_observation(), goal, state])


def play(policy: Policy, environment: gymnasium.Env, seed: int) -> bool:
    """Play an episode; returns whether the goal is reached."""
    np.random.seed(seed)  # starts and goals are drawn from NumPy's global generator
    state, info = environment.reset(seed=seed, options={"task_id": 1 + seed % TASKS})
    goal, reward, over = info["goal"], 0.0, False
    policy.reset()
    while not over:
        action = policy.act(observed(environment, state, goal, policy.size), float(reward))
        state, reward, terminated, truncated, info = environment.step(action)
        over = terminated or truncated
    return bool(info["success"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", help="the ONNX file of an agent of an ogbench/... dataset")
    parser.add_argument("--episodes", type=int, default=50, help="number of episodes (default: 50)")
    arguments = parser.parse_args()
    policy = Policy(arguments.policy)
    environment = ogbench.make_env_and_datasets(policy.dataset, env_only=True)
    successes = np.array([play(policy, environment, seed) for seed in range(arguments.episodes)])
    by_task = [f"{100 * successes[task::TASKS].mean():.0f}" for task in range(TASKS)]
    print(f"success {100 * successes.mean():.1f}, tasks 1 to {TASKS}: {', '.join(by_task)}")


if __name__ == "__main__":
    main()
