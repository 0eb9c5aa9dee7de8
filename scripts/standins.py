"""Makes results/standins/: every stand-in beside D4RL's dataset of that name.

    python scripts/standins.py    # makes the datasets that are missing

D4RL's statistics are in d4rl_statistics.json: returns as commonly quoted, observations from model cards.
"""

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from results_folder import RESULTS, provenance, table, write_report

from decision_rnn import EpisodeStore, open_dataset

FOLDER = RESULTS / "standins"
REFERENCE = json.loads(Path(__file__).with_name("d4rl_statistics.json").read_text())
TASKS = ("hopper", "halfcheetah", "walker2d")
LEVELS = ("random", "medium-replay", "medium", "medium-expert", "expert", "mixed")
JOINTS = {
    "hopper": ("thigh", "leg", "foot"),
    "halfcheetah": ("back thigh", "back shin", "back foot", "front thigh", "front shin", "front foot"),
    "walker2d": ("right thigh", "right leg", "right foot", "left thigh", "left leg", "left foot"),
}
"""In the order of Gymnasium's documentation."""


def statistics(store: EpisodeStore) -> dict[str, float]:
    """Statistics of a dataset, under the keys of d4rl_statistics.json."""
    returns, lengths = store.episode_returns, store.episode_lengths
    return {
        "episodes": len(returns),
        "return_mean": returns.mean(),
        "return_sd": returns.std(),
        "return_min": returns.min(),
        "return_max": returns.max(),
        "length_mean": lengths.mean(),
    }


def beside(value: float, reference: float | None) -> str:
    """Our value, with D4RL's and the relative difference in brackets."""
    if reference is None:
        return f"{value:,.0f}"
    return f"{value:,.0f} ({reference:,.0f}, {100 * (value - reference) / abs(reference):+.0f}%)"


def observation_names(task: str) -> list[str]:
    """Names of an observation's entries: positions, then velocities."""
    bodies = ("torso", *JOINTS[task])
    positions = ["height", *(f"{body}, angle" for body in bodies)]
    return [*positions, "forward velocity", "upward velocity", *(f"{body}, angular velocity" for body in bodies)]


def observation_table(name: str, store: EpisodeStore, reference: dict[str, Any]) -> str:
    """Means and standard deviations of the observations beside D4RL's."""
    mean, sd = np.array(reference["observation_mean"]), np.array(reference["observation_sd"])
    differences, ratios = (store.observation_mean - mean) / sd, store.observation_std / sd
    rows = [
        [
            entry,
            f"{mean[i]:.3f} ± {sd[i]:.3f}",
            f"{store.observation_mean[i]:.3f} ± {store.observation_std[i]:.3f}",
            f"{differences[i]:+.2f}",
            f"{ratios[i]:.2f}",
        ]
        for i, entry in enumerate(observation_names(name.partition("-")[0]))
    ]
    head = ["entry", "D4RL, mean ± sd", "ours", "difference of the means, in D4RL's sd", "ratio of the sd"]
    return f"### {name}\n\n{table(head, rows)}"


def draw(returns: dict[str, np.ndarray], path: Path) -> None:
    """Plot the returns of every dataset, with D4RL's mean, standard deviation and range above them."""
    figure, axes = plt.subplots(len(TASKS), len(LEVELS), figsize=(18, 6.6), sharex="row", layout="constrained")
    for axis, name in zip(axes.flat, (f"{task}-{level}" for task in TASKS for level in LEVELS), strict=True):
        if name not in returns:
            axis.set_axis_off()
            continue
        axis.hist(returns[name], 50, color="#4c78a8")
        reference, top = REFERENCE["datasets"].get(name, {}), 1.12 * axis.get_ylim()[1]
        if "return_mean" in reference:
            axis.errorbar(
                reference["return_mean"], top, xerr=reference.get("return_sd"), fmt="o", color="#e45756", capsize=3
            )
        for key in ("return_min", "return_max"):
            if key in reference:
                axis.plot(reference[key], top, "|", color="#e45756", markersize=10)
        axis.set_title(name, fontsize=10)
        axis.set_yticks([])
        axis.spines[["top", "right", "left"]].set_visible(False)
    figure.supxlabel("return of an episode; in red D4RL's mean ± sd, lowest and highest where known", fontsize=10)
    figure.savefig(path, dpi=110)


def main() -> None:
    sentence = provenance(seeds=[0])
    rows, observations, returns = [], [], {}
    for name in REFERENCE["datasets"]:
        dataset = open_dataset(name)
        store = dataset.store
        returns[name], reference = store.episode_returns, REFERENCE["datasets"][name]
        values = {key: beside(value, reference.get(key)) for key, value in statistics(store).items()}
        rows.append([name, *values.values(), f"{float(dataset.spec.normalised(returns[name].mean())):.1f}"])
        if "observation_mean" in reference:
            observations.append(observation_table(name, store, reference))
    draw(returns, FOLDER / "returns.png")
    head = ["stand-in", "episodes", "return, mean", "sd", "min", "max", "length", "score of the data"]
    sections = [
        "# Stand-ins beside D4RL's datasets",
        "In brackets D4RL's value as commonly quoted, and our relative difference.",
        table(head, rows),
        "![Distribution of returns of every stand-in](returns.png)",
        f"## Observations\n\nD4RL's are those of {REFERENCE['source of observations']}.",
        *observations,
    ]
    write_report(FOLDER / "README.md", "\n\n".join(sections), sentence)


if __name__ == "__main__":
    main()
