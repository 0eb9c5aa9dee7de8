"""Makes results/memory-dark-key-to-door/: the return of every inner episode of a history in rooms never seen.

    decision-rnn compare --config configs/comparisons/memory-dark-key-to-door.yaml --output runs/memory-dark-key-to-door
    python scripts/in_context.py runs/memory-dark-key-to-door

The agents of a comparison on Dark Key-to-Door play histories of 400 inner episodes, each in a room of its own that is
not among those of the data, with the state carried from one inner episode to the next. What was played is kept beside
each run, in histories.json, and is not played again.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import gymnasium
import numpy as np
import torch
from matplotlib import pyplot as plt
from results_folder import RESULTS, Made, table, write_csv, write_report

from decision_rnn import EnvironmentActor, load_agent
from decision_rnn.comparison.record import Comparison, Trial, read_comparison
from decision_rnn.environments.memory.dark_key_to_door import EPISODES, STEPS, DarkKeyToDoor, approach
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.utils.files import write_atomically
from decision_rnn.utils.plots import save_figure

ROOMS = 20
SEED = 1_000_000
BEST = 2.0
LAST = 10
SMOOTHED = 10
"""Inner episodes that a point of the curve averages."""
COLOURS, REFERENCE = ("#1f5a86", "#c46a1b", "#4d8a57", "#8a5a9e"), "#777777"


class Play(NamedTuple):
    """The returns (rooms, inner episodes) that were played, and a step's median CPU time in every inner one."""

    returns: np.ndarray
    microseconds: np.ndarray


def play(run: Path) -> Play:
    """The histories of the agent of a run, played in all rooms side by side."""
    file = run / "histories.json"
    if not file.is_file():
        rooms = gymnasium.vector.SyncVectorEnv([DarkKeyToDoor] * ROOMS)
        torch.manual_seed(SEED)
        actor = EnvironmentActor(load_agent(run), env=rooms)
        observation, _ = rooms.reset(seed=SEED)
        reward, done = np.zeros(ROOMS), np.zeros(ROOMS, bool)
        returns, seconds = np.zeros((EPISODES, ROOMS)), np.empty((EPISODES, STEPS))
        with one_thread():
            for episode, step in np.ndindex(EPISODES, STEPS):
                begun = time.thread_time()
                action = actor(observation, reward, done)
                seconds[episode, step] = time.thread_time() - begun
                observation, reward, terminated, truncated, _ = rooms.step(action)
                done = terminated | truncated
                returns[episode] += EPISODES * reward
        played = {"returns": returns.T.tolist(), "microseconds": (1e6 * np.median(seconds, 1)).tolist()}
        write_atomically(file, json.dumps(played).encode())
    found = json.loads(file.read_text())
    return Play(np.array(found["returns"]), np.array(found["microseconds"]))


def scripted(noise: float) -> float:
    """The mean return of an inner episode by the scripted agent that knows the room, with a rate of random actions."""
    generator, total = np.random.default_rng(SEED), 0.0
    for seed in range(ROOMS):
        room, over = DarkKeyToDoor(20), False
        room.reset(seed=SEED + seed)
        while not over:
            action = int(generator.integers(5)) if generator.random() < noise else approach(room)
            _, reward, _, over, _ = room.step(action)
            total += reward
    return total / ROOMS


class Row(NamedTuple):
    """A variant: what the agents of its seeds played, and its record."""

    name: str
    plays: Sequence[Play]
    trials: Sequence[Trial]

    @property
    def curve(self) -> np.ndarray:
        """The mean return of every inner episode, over rooms and seeds."""
        return np.mean([play.returns.mean(0) for play in self.plays], axis=0)


def collect(comparison: Comparison, folder: Path) -> list[Row]:
    """Play what is missing."""
    name = comparison.datasets[0].data.name
    trials = {variant.label: comparison.trials_of(variant.label, name) for variant in comparison.variants}
    return [Row(label, [play(folder / trial.run) for trial in found], found) for label, found in trials.items()]


def draw(rows: Sequence[Row], references: dict[str, float], path: Path) -> None:
    """The return over the inner episodes, smoothed, and the time of a step beside it."""
    figure, (returns, times) = plt.subplots(
        1, 2, figsize=(11, 4), layout="constrained", gridspec_kw={"width_ratios": (2, 1)}
    )
    at = np.arange(EPISODES // SMOOTHED) * SMOOTHED + (SMOOTHED + 1) / 2
    for row, colour in zip(rows, COLOURS, strict=False):
        returns.plot(at, row.curve.reshape(-1, SMOOTHED).mean(1), color=colour, linewidth=2, label=row.name)
        step = np.median([play.microseconds for play in row.plays], 0)
        times.plot(at, np.median(step.reshape(-1, SMOOTHED), 1) / 1e3, color=colour, linewidth=2)
    for text, value in references.items():
        returns.axhline(value, color=REFERENCE, linewidth=1, linestyle=":")
        returns.text(EPISODES, value + 0.02, text, ha="right", va="bottom", fontsize=9, color=REFERENCE)
    returns.axvline(100, color=REFERENCE, linewidth=1)
    returns.text(103, 0.03, "longest history of the data", fontsize=9, color=REFERENCE)
    returns.set(ylim=(0, 1.1 * BEST), xlim=(0, EPISODES), xlabel="inner episode, of 50 steps", ylabel="return")
    returns.set_title(f"return in rooms never seen, mean of {SMOOTHED} inner episodes", loc="left", fontsize=11)
    returns.legend(frameon=False, loc="center right")
    times.set(xlim=(0, EPISODES), xlabel="inner episode")
    times.set_ylim(0)
    times.set_title(f"CPU time of a step of {ROOMS} rooms, ms", loc="left", fontsize=11)
    for panel in (returns, times):
        panel.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)


def markdown(rows: Sequence[Row]) -> str:
    """The table of the report."""
    parts = {"1": slice(0, 1), "2 to 10": slice(1, 10), "91 to 100": slice(90, 100), "the last ten": slice(-LAST, None)}
    head = ["agent", *(f"inner episode {part}" if part == "1" else part for part in parts), "of the best", "found both"]
    head += ["CPU µs a step, first to last", "state, bytes", "parameters", "training steps"]
    lines = []
    for row in rows:
        found = [f"{row.curve[part].mean():.2f}" for part in parts.values()]
        last = np.concatenate([play.returns[:, -LAST:].mean(1) for play in row.plays])
        step = np.median([play.microseconds for play in row.plays], 0)
        lines.append(
            [
                *(row.name, *found, f"{100 * last.mean() / BEST:.0f}%", f"{100 * np.mean(last > 1):.0f}%"),
                f"{np.median(step[:LAST]) / ROOMS:.0f} to {np.median(step[-LAST:]) / ROOMS:.0f}",
                *(f"{row.trials[0].state_bytes or 0:,}", f"{row.trials[0].parameters:,}", f"{row.trials[0].step:,}"),
            ]
        )
    return table(head, lines)


def report(comparison: Comparison, rows: Sequence[Row], references: dict[str, float]) -> str:
    """The report, without how it was made."""
    training, seeds = comparison.variants[0].config["training"], len(comparison.seeds)
    return "\n\n".join(
        [
            "# Learnt in context: Dark Key-to-Door",
            "![The return over the inner episodes of a history](memory-dark-key-to-door.png)",
            "A history is 400 inner episodes in one room whose key and door are not seen: an agent that finds them and "
            f"remembers earns {BEST:g} in every later inner episode. Behaviour cloning of 500 histories of 50 to 100 "
            "inner episodes, whose scripted agent knows the places and whose actions are random at first; no "
            f"weights change in evaluation, in {ROOMS} rooms that are not in the data; "
            f"{'one seed' if seeds == 1 else f'{seeds} seeds'}. Training on batches of "
            f"{training['batch_size']} slices of {training['context']} steps, with a carried state "
            "(configs/comparisons/memory-dark-key-to-door.yaml).",
            markdown(rows),
            f"The mean return of inner episodes; in the last ten, the share of the best return, {BEST:g}, and the "
            "share of the rooms whose mean is above 1, which takes both key and door. The CPU time of a step is for "
            f"one action in one of {ROOMS} rooms that are played side by side on one thread, in the first and the last "
            f"{LAST} inner episodes. "
            f"For comparison: {'; '.join(f'{text}, {value:.2f}' for text, value in references.items())}.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", type=Path, help="the folder of the comparison")
    folder = parser.parse_args().comparison
    comparison = read_comparison(folder)
    made = Made.from_trials(comparison.trials)
    rows, output = collect(comparison, folder), RESULTS / "memory-dark-key-to-door"
    references = {"knowing the room": scripted(0), "random actions": scripted(1)}
    draw(rows, references, output / "memory-dark-key-to-door.png")
    means = [
        [row.name, trial.seed, episode, f"{mean:.2f}"]
        for row in rows
        for played, trial in zip(row.plays, row.trials, strict=True)
        for episode, mean in enumerate(played.returns.mean(0), 1)
    ]
    write_csv(output / "memory-dark-key-to-door.csv", ["agent", "seed", "inner_episode", "mean_return"], means)
    write_report(output / "README.md", report(comparison, rows, references), made)


if __name__ == "__main__":
    main()
