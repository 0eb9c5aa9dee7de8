"""Makes results/memory/tmaze/: what every backbone recalls after how many steps, and what a step costs.

    decision-rnn compare --config configs/comparisons/memory-tmaze.yaml --output runs/memory-tmaze
    python scripts/memory_table.py runs/memory-tmaze

The agents of a comparison on T-Maze walk corridors much longer than those of their data, asked for 1 and for 0. They
obey if they walk straight to the junction and turn to the hinted side when asked for 1, to the other when asked for 0:
an agent that ignores the hint or the target obeys in half of the episodes. What was played is kept beside each run, in
memory.json, and is not played again.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib import pyplot as plt
from results_folder import RESULTS, Made, table, write_csv, write_report
from torch import Tensor

from decision_rnn.agent import DecisionAgent
from decision_rnn.backbones import Resets, State
from decision_rnn.comparison.record import Comparison, Trial, read_comparison
from decision_rnn.environments.memory.tmaze import DOWN, RIGHT, UP
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.evaluation.statistics import summarise_seeds
from decision_rnn.training.checkpoint import last_checkpoint, load_agent
from decision_rnn.utils.files import write_atomically
from decision_rnn.utils.plots import save_figure

STEPS = (9, 30, 90, 270, 900, 2_700, 9_600)
"""The lengths of the T-Mazes that are played."""
EPISODES = 8
"""Episodes of every length, asked for 1 and, with the same hints and noise, for 0."""
SEED = 1_000_000
BLOCK = 256
SOLVED = 95.0
"""The percentage of episodes from which a length counts as solved."""
COLOURS, BAR, DARK = "Blues", "#9db8c9", "#333333"


@torch.inference_mode()
def obeyed(agent: DecisionAgent, episodes: int = EPISODES) -> list[float]:
    """The percentage of episodes in which an agent obeys in `data.memory.tmaze.TMaze`, for the lengths in STEPS.

    All that an agent sees in the corridor is known beforehand, so its actions are predicted in parallel, and each
    junction from the state that the agent has there. Half of the hints are up; half of the episodes are asked for 1.
    """
    generator, count = np.random.default_rng(SEED), 2 * episodes
    hint = torch.tensor([1.0, -1.0]).repeat(episodes)
    target = torch.tensor([1.0, 0.0]).repeat_interleave(episodes)
    turn = torch.where((hint == 1) == (target == 1), UP, DOWN)
    state, straight, time, found = None, torch.ones(count, dtype=torch.bool), 0, []

    def act(state: State | None, steps: int, flag: float) -> tuple[Tensor, State]:
        """The actions (count, steps) at the next steps, and the state after them."""
        seen = torch.zeros(count, steps, 4)
        seen[:, 0, 1] = hint * (time == 0)
        seen[..., 2] = flag
        seen[..., 3] = torch.from_numpy(generator.integers(-1, 2, (episodes, steps))).repeat(2, 1)
        asked, before = target[:, None, None].expand(-1, steps, 1), torch.zeros(count, steps, agent.action_dim)
        going = Resets.from_mask(torch.zeros(count, steps, dtype=torch.bool))
        when = torch.arange(time, time + steps).expand(count, -1)
        actions, state = agent.predict(asked, seen, before, when, going, state)
        return actions.argmax(-1), state

    for corridor in (steps - 2 for steps in STEPS):
        while time < corridor:
            block = min(BLOCK, corridor - time)
            actions, state = act(state, block, 0)
            straight &= (actions == RIGHT).all(1)
            time += block
        actions, _ = act(state, 1, 1)
        found.append(100 * float((straight & (actions[:, 0] == turn)).double().mean()))
    return found


def play(run: Path) -> dict[int, float]:
    """`obeyed` of the agent of a run, by length."""
    file = run / "memory.json"
    if not file.is_file():
        with one_thread():
            write_atomically(file, json.dumps(obeyed(load_agent(last_checkpoint(run)).agent)).encode())
    return dict(zip(STEPS, json.loads(file.read_text()), strict=True))


class Cost(NamedTuple):
    """What an agent costs: microseconds of a step, in one environment on one thread; bytes of state; parameters."""

    microseconds: float
    state_bytes: int
    parameters: int


def cost(trials: Sequence[Trial]) -> Cost:
    """The cost that a backbone's evaluations measured, of which the least time: other processes disturb it least."""
    times = [trial.action_microseconds for trial in trials if trial.action_microseconds is not None]
    return Cost(min(times), trials[0].state_bytes or 0, trials[0].parameters)


class Row(NamedTuple):
    """A backbone: in how many episodes its agents obey, in percent, by length and seed, and their cost."""

    name: str
    obeys: dict[int, list[float]]
    cost: Cost

    @property
    def means(self) -> np.ndarray:
        """The mean over seeds at every length."""
        return np.array([statistics.fmean(self.obeys[steps]) for steps in STEPS])

    @property
    def reach(self) -> int:
        """The longest maze up to which it obeys in nearly all episodes, in the mean over seeds; 0 if in none."""
        solved = [steps for steps, mean in zip(STEPS, self.means, strict=True) if mean >= SOLVED]
        unsolved = [steps for steps in STEPS if steps not in solved]
        return max((steps for steps in solved if steps < min(unsolved, default=max(STEPS) + 1)), default=0)


def collect(comparison: Comparison, folder: Path) -> list[Row]:
    """Play and measure what is missing; the rows with the longest reach first."""
    runs = {v.label: comparison.trials_of(v.label, comparison.datasets[0].data.name) for v in comparison.variants}
    runs = {name: trials for name, trials in runs.items() if trials}
    played = {}
    for name, trials in runs.items():
        of_seeds = [play(folder / trial.run) for trial in trials]
        played[name] = {steps: [of[steps] for of in of_seeds] for steps in STEPS}
        print(name, *(f"{statistics.fmean(played[name][steps]):.0f}" for steps in STEPS), flush=True)
    rows = [Row(name, played[name], cost(trials)) for name, trials in runs.items()]
    return sorted(rows, key=lambda row: (-row.reach, -row.means.sum()))


def spread(values: Sequence[float]) -> str:
    """A mean over seeds with its range or interval, if the seeds differ."""
    of = summarise_seeds(values)
    if of.low is None or of.high is None or of.low == of.high:
        return f"{of.score:.0f}"
    return f"{of.score:.0f} ({max(of.low, 0):.0f} to {min(of.high, 100):.0f})"


def short(steps: int) -> str:
    return f"{steps:,}"


def draw(rows: Sequence[Row], trained_on: int, path: Path) -> None:
    """One row for every backbone: how often it obeys by length, the longest reach first, and beside it its cost."""
    widths = {"width_ratios": (len(STEPS), 1.6, 1.6), "wspace": 0.04}
    figure, (shares, times, sizes) = plt.subplots(
        1, 3, figsize=(11, 1.6 + 0.42 * len(rows)), sharey=True, gridspec_kw=widths, layout="constrained"
    )
    means = np.array([row.means for row in rows])
    shares.imshow(means, cmap=COLOURS, vmin=50, vmax=100, aspect="auto")
    for (y, x), mean in np.ndenumerate(means):
        of, colour = rows[y].obeys[STEPS[x]], "white" if mean > 82 else "black"
        differ = max(of) - min(of) >= 1
        shares.text(x, y - 0.14 * differ, f"{mean:.0f}", ha="center", va="center", fontsize=10.5, color=colour)
        if differ:
            text = f"{min(of):.0f} to {max(of):.0f}"
            shares.text(x, y + 0.27, text, ha="center", va="center", fontsize=7, color=colour)
    shares.set_xticks(range(len(STEPS)), [short(steps) for steps in STEPS])
    shares.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=11)
    shares.set_xticks(np.arange(len(STEPS) - 1) + 0.5, minor=True)
    shares.set_yticks(np.arange(len(rows) - 1) + 0.5, minor=True)
    shares.grid(which="minor", color="white", linewidth=2)
    longest = STEPS.index(trained_on)
    shares.axvline(longest + 0.5, color=DARK, linewidth=1.5)
    shares.text(longest + 0.42, -0.72, "lengths of the data", ha="right", fontsize=9, color=DARK)
    shares.text(longest + 0.58, -0.72, "longer than any of the data", ha="left", fontsize=9, color=DARK)
    shares.set_xlabel("steps over which the hint must be remembered")
    shares.set_title("episodes that go as asked, % (guessing: 50); range over seeds", loc="left", pad=20, fontsize=11)
    bars = (
        (times, [row.cost.microseconds for row in rows], "µs a step", "{:.0f}"),
        (sizes, [row.cost.state_bytes / 1024 for row in rows], "state, KiB", "{:.1f}"),
    )
    for panel, values, title, form in bars:
        panel.barh(range(len(rows)), values, height=0.6, color=BAR)
        panel.set_xlim(0, 1.45 * max(values))
        for y, value in enumerate(values):
            panel.text(value + 0.03 * max(values), y, form.format(value), va="center", fontsize=9)
        panel.set_title(title, loc="left", pad=20, fontsize=11)
        panel.set_xticks([])
        panel.spines[["top", "right", "bottom", "left"]].set_visible(False)
    for panel in (shares, times, sizes):
        panel.tick_params(which="both", length=0)
    shares.spines[:].set_visible(False)
    save_figure(figure, path)


def markdown(rows: Sequence[Row]) -> str:
    """The table of the report."""
    head = ["backbone", *map(short, STEPS), "µs a step", "state, bytes", "parameters"]
    lines = []
    for row in rows:
        shares = [spread(row.obeys[steps]) for steps in STEPS]
        lines.append(
            [row.name, *shares, f"{row.cost.microseconds:.0f}", f"{row.cost.state_bytes:,}", f"{row.cost.parameters:,}"]
        )
    return table(head, lines)


def report(comparison: Comparison, rows: Sequence[Row], trained_on: int) -> str:
    """The report, without how it was made."""
    config, count = comparison.variants[0].config, len(comparison.seeds)
    training = config["training"]
    return "\n\n".join(
        [
            "# What each backbone remembers: T-Maze",
            "![How often each backbone obeys, by the length of the maze](memory-tmaze.png)",
            f"Trained on `memory/tmaze-{trained_on}`, played in mazes up to {max(STEPS) // trained_on} times as long. "
            "A hint at the first step says to which side to turn at the end of the corridor; asked for a return of 1, "
            "an agent should turn there, and asked for 0 to the other side. The table has the percentage of episodes "
            f"in which it does as it is asked, so that guessing gives 50: the mean over {count} seeds, and in brackets "
            f"their range where they differ; {EPISODES} episodes each way. All backbones have about the same number of "
            f"parameters, {config['backbone']['layers']} layers, and {training['steps']} steps of training on batches "
            f"of {training['batch_size']} segments of {training['context']} steps; the learning rate of each was "
            "chosen from three on another seed (configs/comparisons/memory-tmaze.yaml).",
            "A backbone that does not reach 100 at the lengths of the data has not learnt the task in so short a "
            "training: its row shows that, and not what it could remember.",
            markdown(rows),
            "A step is one action in one environment on one thread: the median of 200, the least over the seeds, "
            "beside other work.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", type=Path, help="the folder of the comparison")
    folder = parser.parse_args().comparison
    comparison = read_comparison(folder)
    made = Made.from_trials(comparison.trials)
    torch.set_num_threads(1)
    rows = collect(comparison, folder)
    name = comparison.datasets[0].data.name
    output, trained_on = RESULTS / "memory" / "tmaze", int(name.rpartition("-")[2])
    draw(rows, trained_on, output / "memory-tmaze.png")
    shares = [
        [row.name, trial.seed, steps, value]
        for row in rows
        for steps in STEPS
        for trial, value in zip(comparison.trials_of(row.name, name), row.obeys[steps], strict=True)
    ]
    write_csv(output / "memory-tmaze.csv", ["backbone", "seed", "steps", "obeys_percent"], shares)
    write_report(output / "README.md", report(comparison, rows, trained_on), made)


if __name__ == "__main__":
    main()
