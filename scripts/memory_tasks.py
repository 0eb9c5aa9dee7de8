"""Make the datasets under memory/ and describe them in results/memory-tasks.

    python scripts/memory_tasks.py

For every task: what its data hold, what its scripted expert earns, what random actions earn, and the highest mean
return that is possible. For Pendulum the last is that of an optimal controller, found by dynamic programming here.
"""

import argparse
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from results_folder import RESULTS, Made, write_report
from scipy.ndimage import map_coordinates

from decision_rnn.comparison.report.parts import Table
from decision_rnn.data.catalog import open_dataset
from decision_rnn.environments.environments import make_environment
from decision_rnn.environments.memory.recipes import RECIPES, Recipe

SEED = 1_000_000
"""Of the first episode, as in an evaluation."""
STEPS = 400_000
"""About as many steps are played by each policy in each environment, in 50 to 2,000 episodes."""


def mean_return(recipe: Recipe, policy: Callable[[Any], Any]) -> tuple[float, float]:
    """Mean return of a policy in the environment of the evaluation, and its standard error."""
    environment = make_environment(recipe.environment_id).unwrapped
    environment.action_space.seed(SEED)
    returns: list[float] = []
    steps = 0
    while len(returns) < 50 or (steps < STEPS and len(returns) < 2_000):
        environment.reset(seed=SEED + len(returns))
        returns.append(0.0)
        over = False
        while not over:
            _, reward, terminated, truncated, _ = environment.step(policy(environment))
            returns[-1] += reward
            steps += 1
            over = terminated or truncated
    return float(np.mean(returns)), float(np.std(returns) / len(returns) ** 0.5)


def at_random(environment: gymnasium.Env) -> Any:
    return environment.action_space.sample()


class Swing:
    """Gymnasium's Pendulum on a grid of angles and velocities: the smallest cost that is still to come."""

    def __init__(self, angles: int = 361, velocities: int = 321, torques: int = 21) -> None:
        self.shape = (angles, velocities)
        self.torques = np.linspace(-2, 2, torques)
        axes = np.linspace(-np.pi, np.pi, angles), np.linspace(-8, 8, velocities)
        self.grid = np.stack(np.meshgrid(*axes, indexing="ij"))
        self.cost = np.zeros(self.shape)

    def step(self, state: np.ndarray, torque: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """The next states (2, ...) and the costs (...) of a torque."""
        angle, velocity = state
        cost = angle**2 + 0.1 * velocity**2 + 0.001 * np.square(torque)
        velocity = np.clip(velocity + (15 * np.sin(angle) + 3 * torque) * 0.05, -8, 8)
        return np.stack([(angle + velocity * 0.05 + np.pi) % (2 * np.pi) - np.pi, velocity]), cost

    def to_come(self, state: np.ndarray) -> np.ndarray:
        """The cost to come at states (2, ...), interpolated in the grid."""
        angle, velocity = state
        places = [(angle + np.pi) / (2 * np.pi) * (self.shape[0] - 1), (velocity + 8) / 16 * (self.shape[1] - 1)]
        return map_coordinates(self.cost, places, order=1, mode="nearest")

    def totals(self, state: np.ndarray) -> np.ndarray:
        """The cost of every torque and of what comes after it, (torques, ...)."""
        return np.stack([cost + self.to_come(after) for after, cost in (self.step(state, u) for u in self.torques)])

    def sweep(self) -> None:
        """One more step to come."""
        self.cost = self.totals(self.grid).min(0)


def _start(seed: int) -> np.ndarray:
    """The first angle and velocity of an episode."""
    environment = gymnasium.make("Pendulum-v1").unwrapped
    environment.reset(seed=seed)
    return environment.state


def best_swings(horizons: tuple[int, ...] = (100, 150, 200), starts: int = 2_000) -> dict[int, tuple[float, float]]:
    """For episodes of so many steps, the mean return of the controller that a grid's costs to come choose, and the mean
    return that these costs promise, which interpolation distorts."""
    swing, promised = Swing(), {}
    begin = np.stack([_start(SEED + episode) for episode in range(starts)], axis=1)
    for steps in range(1, max(horizons) + 1):
        swing.sweep()
        if steps in horizons:
            promised[steps] = float(swing.to_come(begin).mean())
    state, spent, earned = begin, np.zeros(starts), {}
    for steps in range(1, max(horizons) + 1):
        state, cost = swing.step(state, swing.torques[swing.totals(state).argmin(0)])
        spent += cost
        earned[steps] = float(spent.mean())
    half = 16.2736044 / 2  # of the largest cost: POPGym's scale
    return {steps: (1 - earned[steps] / half / steps, 1 - promised[steps] / half / steps) for steps in horizons}


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    made = Made.here(seeds=[SEED], packages=["popgym"])
    swings = best_swings()
    rows = []
    for name, recipe in RECIPES.items():
        store, spec = open_dataset(name).open(), open_dataset(name).spec
        (expert, error), (chance, noise) = mean_return(recipe, recipe.expert), mean_return(recipe, at_random)
        data, best = store.manifest["statistics"], f"{recipe.references[1]:g}"
        if "Pendulum" in recipe.environment_id:
            best = "{:.4f} ({:.4f})".format(*swings[int(data["length_mean"])])
        rows.append(
            [
                name.removeprefix("memory/"),
                f"{data['episodes']:,}",
                f"{data['length_mean']:.0f}",
                f"{data['return_mean']:.3f} ± {data['return_sd']:.3f}",
                f"{chance:.4f} ± {noise:.4f}",
                f"{expert:.4f} ± {error:.4f}",
                best,
                f"{spec.normalised(data['return_mean']):.1f}",
                f"{spec.normalised(expert):.1f}",
            ]
        )
        print(*rows[-1], sep=" | ", flush=True)
    head = (
        "dataset",
        "episodes",
        "length",
        "return of the data, mean ± sd",
        "random actions, mean ± standard error",
        "scripted expert",
        "best possible",
        "score of the data",
        "score of the expert",
    )
    text = "\n\n".join(
        [
            "# The tasks where memory decides",
            "The data under `memory/`, and three policies in the environments of the evaluation. The expert sees the "
            "full state. A score is 0 at the return of random actions and 100 at the best possible; T-Maze's are 0 for "
            "no success and 100 for success.",
            Table(head[0], head, rows).markdown(),
            "The best possible return follows from the rules, except for Pendulum, where it depends on the start: it "
            "is the mean over the first 2,000 episodes of a controller which dynamic programming over a grid of 361 "
            "angles, 321 velocities and 21 torques finds, and in brackets what the costs in the grid promise. All are "
            "returns of the same episodes.",
        ]
    )
    write_report(RESULTS / "memory-tasks" / "README.md", text, made)


if __name__ == "__main__":
    main()
