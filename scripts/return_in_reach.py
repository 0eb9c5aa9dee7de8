"""Makes results/return-in-reach/: whether the return in reach is what the data say, and scores of agents asked for it.

    decision-rnn compare --config configs/comparisons/return-in-reach.yaml --output runs/return-in-reach
    python scripts/return_in_reach.py runs/return-in-reach

An agent judges quantiles of the return-to-go. In its data, the return-to-go should exceed the quantile of a level tau
in a share 1 - tau of the steps, early in an episode as late. The same agents play asked for `best` at every level.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from results_folder import RESULTS, Made, table, write_report
from rtg_caps import finished

from decision_rnn import evaluate, load_agent, open_dataset
from decision_rnn.agent.reach import LEVELS
from decision_rnn.backbones import Resets
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.utils.files import write_atomically
from decision_rnn.utils.messages import bar

ASKED = (0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
"""The levels at which agents play."""
SAMPLE = 200
"""Episodes of the data in which the quantiles are checked."""
PARTS = 5
"""Parts of the data's timesteps, with as many steps each."""


@one_thread()
@torch.inference_mode()
def exceeded(trained: TrainedAgent) -> tuple[np.ndarray, np.ndarray]:
    """In what share of the data's steps the return-to-go exceeds the quantile of every level, in each part of the
    timesteps, (parts, levels), and the last timestep of each part."""
    agent, store = trained.agent, open_dataset(trained.config.dataset).open()
    chosen = set(np.random.default_rng(0).choice(store.episodes, min(SAMPLE, store.episodes), replace=False).tolist())
    steps, above = [], []
    for index, episode in enumerate(store.read_episodes()):
        if index not in chosen:
            continue
        length = len(episode.rewards)
        observation = torch.from_numpy(episode.observations[:length]).float()[None]
        previous = torch.zeros(1, length, agent.action_dim)
        previous[0, 1:] = torch.from_numpy(episode.actions[:-1]).float()
        timestep = torch.arange(length)[None]
        quantiles = agent.return_in_reach(observation, previous, timestep, Resets.from_mask(timestep == 0))
        to_go = np.cumsum(episode.rewards[::-1].astype(np.float64))[::-1]
        steps.append(np.arange(length))
        above.append(to_go[:, None] > quantiles[0].double().numpy())
    when, exceeds = np.concatenate(steps), np.concatenate(above)
    edges = np.quantile(when, np.arange(1, PARTS + 1) / PARTS, method="lower")
    part = np.searchsorted(edges, when)
    return np.stack([exceeds[part == i].mean(0) for i in range(PARTS)]), edges


def picture(shares: dict[str, np.ndarray], scores: dict[str, dict[float, list[float]]], path: Path) -> None:
    """Left, the share of steps that exceed a quantile over the share that should; right, scores over levels."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    expected = 1 - np.array(LEVELS)
    left.plot(expected, expected, "--", color="grey", label="as the level says")
    for name, share in shares.items():
        (line,) = left.plot(expected, share.mean(0), marker="o", label=name)
        left.fill_between(expected, share.min(0), share.max(0), color=line.get_color(), alpha=0.15)
        levels = list(scores[name])
        right.plot(range(len(levels)), [np.mean(scores[name][of]) for of in levels], marker="o", label=name)
    left.set(xscale="log", yscale="log", xlabel="1 - level", ylabel="share of the data's steps above the quantile")
    right.set_xticks(range(len(ASKED)), [f"{level:g}" for level in ASKED])
    right.set(xlabel="condition.reach", ylabel="score, asked for best")
    right.set_ylim(bottom=0)
    left.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", type=Path, help="the folder of a comparison, whose agents are tried")
    parser.add_argument("--variant", default="mingru", help="which of its variants (default: mingru)")
    parser.add_argument("--episodes", type=int, default=30, help="for each agent and level (default: 30)")
    parser.add_argument("--output", type=Path, default=RESULTS / "return-in-reach")
    options = parser.parse_args()
    runs = finished(options.comparison, options.variant)
    if not runs:
        parser.error(f"{options.comparison} holds no finished runs of {options.variant}")
    made = Made.from_trials(cell for _, cell in runs)

    scores: dict[str, dict[float, list[float]]] = {}
    shares: dict[str, list[np.ndarray]] = {}
    ends: dict[str, np.ndarray] = {}
    for run, cell in bar(runs, desc="evaluating", unit="agent"):
        trained = load_agent(run)
        share, ends[cell.dataset] = exceeded(trained)
        shares.setdefault(cell.dataset, []).append(share)
        by_level = scores.setdefault(cell.dataset, {level: [] for level in ASKED})
        for level, seeds in by_level.items():
            result = evaluate(trained, "best", episodes=options.episodes, reach=level, progress=False)
            seeds.append(round(result.targets[0].score_mean, 2))
    means = {name: np.mean(found, axis=0) for name, found in shares.items()}
    options.output.mkdir(parents=True, exist_ok=True)
    write_atomically(options.output / "scores.json", (json.dumps(scores, indent=1) + "\n").encode())
    picture(means, scores, options.output / "return-in-reach.png")

    played = [
        [
            name,
            *(f"{np.mean(of):.1f}" + (f" ({', '.join(map(str, of))})" if len(of) > 1 else "") for of in row.values()),
        ]
        for name, row in scores.items()
    ]
    checked = [
        [name, f"to {ends[name][i]:,}", *(f"{share:.3f}" for share in part)]
        for name, parts in means.items()
        for i, part in enumerate(parts)
    ]
    write_report(
        options.output / "README.md",
        "# The return in reach\n\n![Calibration, and scores over levels](return-in-reach.png)\n\n"
        f"Scores of {options.variant}, asked for `best`, over `condition.reach`, the quantile that counts as in reach: "
        f"the same weights in a row, {options.episodes} episodes each, and in brackets every seed.\n\n"
        + table(["data", *(f"{level:g}" for level in ASKED)], played)
        + "\n\nHow often the return-to-go exceeds a quantile in the data that the agent was trained on, by timestep, "
        f"in {SAMPLE} episodes; it should be 1 - level. The band in the picture is over the timesteps.\n\n"
        + table(["data", "timesteps", *(f"{1 - level:.3g}" for level in LEVELS)], checked),
        made,
    )


if __name__ == "__main__":
    main()
