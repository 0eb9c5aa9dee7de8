"""Makes results/goals/mazes-stitch/ways.svg: the ways that agents take in a maze of OGBench, one picture an agent and
one color a task.

    runs=runs/mazes-stitch/ogbench-pointmaze-medium-stitch-v0
    python scripts/maze_paths.py results/goals/mazes-stitch/ways.svg \
        "time to goal=$runs/time-to-goal-seed1" "time to goal, swapped goals=$runs/swapped-seed1"
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.patches import Rectangle

import decision_rnn
from decision_rnn.environments.playing import play_episode
from decision_rnn.environments.registry import make_environment

TASKS, EPISODES = 5, 3


def draw(place: plt.Axes, run: str) -> None:
    """The walls, the ways of all episodes, their starts (dots) and their goals (stars)."""
    agent = decision_rnn.load_agent(run)
    environment = make_environment(agent.provenance.environment_id)
    maze = environment.unwrapped
    for i, j in np.argwhere(maze.maze_map == 1):
        x, y = maze.ij_to_xy((i, j))
        place.add_patch(Rectangle((x - 2, y - 2), 4, 4, color="0.85"))
    actor = decision_rnn.EnvironmentActor(agent, target_return="auto")
    for seed in range(TASKS * EPISODES):
        color = f"C{seed % TASKS}"
        actor.reset()
        torch.manual_seed(seed)  # of the sampled actions
        way = play_episode(environment, lambda observation, reward, first: actor.act(observation, reward), seed)
        x, y, goal_x, goal_y = way.observations.T  # of `achieved_goal` and `desired_goal`
        place.plot(x, y, color=color, linewidth=0.8)
        place.plot(x[0], y[0], "o", color=color, markersize=4)
        place.plot(goal_x[0], goal_y[0], "*", color=color, markersize=9, markeredgecolor="black", markeredgewidth=0.5)
    place.set_aspect("equal")
    place.axis("off")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the picture")
    parser.add_argument("runs", nargs="+", help="NAME=RUN, the agents and the names above them")
    command = parser.parse_args()
    figure, places = plt.subplots(1, len(command.runs), layout="constrained", squeeze=False,
                                  figsize=(4 * len(command.runs), 3.6))  # fmt: skip
    for place, text in zip(places[0], command.runs, strict=True):
        name, _, run = text.partition("=")
        place.set_title(name, fontsize=10)
        draw(place, run)
    with plt.rc_context({"svg.hashsalt": "decision-rnn"}):
        figure.savefig(command.output, metadata={"Date": None} if command.output.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
