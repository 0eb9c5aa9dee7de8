"""Makes results/standins/: what every stand-in holds beside D4RL's set of that name, and how hard it is to clone.

    python scripts/standins.py --seeds 1 --training.steps 3000    # an hour on two cores; goes on where it stopped

Cloning is `decision-rnn compare DATASET --backbones mingru --agent.return_conditioning false` without controls; all
options of this script go to it. The random sets are not cloned. What standins.json says of a set is kept as long as the
set's recipe is the same: remove the file to measure all of them again.
"""

import argparse
import json
import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from results_folder import RESULTS as ALL_RESULTS
from results_folder import ROOT, Made, write_report

from decision_rnn.comparison.record import read_comparison
from decision_rnn.comparison.summary import summarise
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.standin.datasets import DATASETS, JOINED, Standin
from decision_rnn.data.standin.recipes import RECIPES
from decision_rnn.data.store.episode_store import EpisodeStore

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RESULTS, RUNS = ALL_RESULTS / "standins", ROOT / "runs" / "standins"
PUBLISHED_CLONING = {  # normalised scores of behaviour cloning on D4RL's sets, CORL's docs/benchmarks/offline.md
    "standin/hopper-medium": 53.5,
    "standin/halfcheetah-medium": 42.4,
    "standin/walker2d-medium": 63.2,
    "standin/hopper-medium-replay": 29.8,
}
TASKS = ("hopper", "halfcheetah", "walker2d")
LEVELS = ("random", "medium-replay", "medium", "medium-expert", "expert", "mixed")


def clone(name: str, options: list[str]) -> dict[str, Any]:
    """The normalised score of behaviour cloning, with its command."""
    short = name.removeprefix("standin/")
    command = ["decision-rnn", "compare", short, "--backbones", "mingru", "--agent.return_conditioning", "false"]
    command += ["--controls", "none", "--checkpoint_episodes", "0"]
    output = RUNS / short
    subprocess.run([*command, *options, "--output", str(output)], cwd=ROOT, check=True)
    comparison = read_comparison(output)
    (summary,) = summarise(comparison)
    return {
        "score": summary.targets[0].scores.score,
        "seeds": list(summary.seeds),
        "commits": sorted({str(cell.commit) for cell in comparison.cells}),
        "command": " ".join([*command, *options]),
    }


def measure(standin: Standin, store: EpisodeStore, options: list[str], made: Made) -> dict[str, Any]:
    """All that the table says of a stand-in, and where it was made."""
    spec, statistics = standin.spec, store.manifest["statistics"]
    return {
        "statistics": statistics,
        "fingerprint": store.fingerprint,
        "score": float(spec.normalised(statistics["return_mean"])),
        "d4rl": asdict(standin.d4rl),
        "cloning": None if spec.name.endswith("-random") else clone(spec.name, options),
        "recipes": recipes_of(spec.name),
        "commit": made.commits[0],
        "hardware": made.hardware,
        "versions": made.versions,
    }


def recipes_of(name: str) -> list[str]:
    """The fingerprints of the recipes that a stand-in is made by."""
    return [RECIPES[part].fingerprint for part in JOINED.get(name, (name,))]


def beside(ours: float, theirs: float | None, digits: int = 0) -> str:
    """Our number with D4RL's and how far off it is."""
    if theirs is None:
        return f"{ours:,.{digits}f}"
    return f"{ours:,.{digits}f} ({theirs:,.{digits}f}, {100 * (ours - theirs) / abs(theirs):+.0f}%)"


def row(standin: Standin, entry: dict[str, Any]) -> str:
    """A line of the table."""
    spec, ours, theirs = standin.spec, entry["statistics"], standin.d4rl
    cloned = "" if entry["cloning"] is None else f"{entry['cloning']['score']:.1f}"
    if spec.name in PUBLISHED_CLONING:
        cloned += f" ({PUBLISHED_CLONING[spec.name]})"
    cells = [
        spec.name.removeprefix("standin/"),
        f"{ours['steps']:,}",
        beside(ours["episodes"], theirs.episodes),
        beside(ours["return_mean"], theirs.return_mean),
        beside(ours["return_sd"], theirs.return_sd),
        f"{ours['return_min']:,.0f}" + ("" if theirs.return_min is None else f" ({theirs.return_min:,.0f})"),
        beside(ours["return_max"], theirs.return_max),
        beside(ours["length_mean"], theirs.length_mean),
        f"{entry['score']:.1f}",
        cloned,
    ]
    return f"| {' | '.join(cells)} |"


def draw(returns: dict[str, np.ndarray], path: Path) -> None:
    """Every set's episodes by return, with D4RL's mean, standard deviation and range above them."""
    figure, axes = plt.subplots(len(TASKS), len(LEVELS), figsize=(18, 6.6), sharex="row", layout="constrained")
    for i, task in enumerate(TASKS):
        for j, level in enumerate(LEVELS):
            axis, name = axes[i, j], f"standin/{task}-{level}"
            if name not in returns:
                axis.set_axis_off()
                continue
            axis.hist(returns[name], 50, color="#4c78a8")
            real, top = DATASETS[name].d4rl, 1.12 * axis.get_ylim()[1]
            if real.return_mean is not None:
                axis.errorbar(real.return_mean, top, xerr=real.return_sd, fmt="o", color="#e45756", capsize=3)
                for end in (real.return_min, real.return_max):
                    if end is not None:
                        axis.plot(end, top, "|", color="#e45756", markersize=10)
            axis.set_title(f"{task}-{level}", fontsize=10)
            axis.set_yticks([])
            axis.spines[["top", "right", "left"]].set_visible(False)
    figure.supxlabel(
        "return of an episode; in red D4RL's mean ± sd, lowest and highest, where we know them", fontsize=10
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _, rest = parser.parse_known_args()
    made = Made.here()
    RESULTS.mkdir(parents=True, exist_ok=True)
    kept = RESULTS / "standins.json"
    entries: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept.is_file() else {}
    returns = {}
    for name, standin in DATASETS.items():
        store = open_dataset(name).open()
        returns[name] = store.episode_returns
        if entries.get(name, {}).get("recipes") != recipes_of(name):
            entries[name] = measure(standin, store, rest, made)
            kept.write_text(json.dumps({key: entries[key] for key in DATASETS if key in entries}, indent=1) + "\n")
    draw(returns, RESULTS / "returns.png")
    machines = "; ".join(
        f"on {cpu} with {', '.join(f'{package} {version}' for package, version in packages)}"
        for cpu, packages in sorted({(e["hardware"]["cpu"], tuple(e["versions"].items())) for e in entries.values()})
    )
    cloning = entries["standin/hopper-medium"]["cloning"]
    head = "| stand-in | steps | episodes | return, mean | sd | min | max | length | score of the data | cloning |\n"
    write_report(
        RESULTS / "README.md",
        "# The stand-ins beside D4RL's sets\n\n"
        "In brackets what the real set holds, as commonly quoted (not recomputed here), and how far off ours is; for "
        "the expert sets what follows from medium and medium-expert; for cloning, CORL's published score.\n\n"
        + head
        + "| --- " * 10
        + "|\n"
        + "\n".join(row(DATASETS[name], entries[name]) for name in DATASETS)
        + "\n\n![returns](returns.png)\n\n"
        + f"The sets were made {machines}: standins.json names each one's commit, machine and fingerprint. Cloning: "
        + f"`{cloning['command']}` and the like. Table and picture:",
        replace(made, seeds=cloning["seeds"]),
    )


if __name__ == "__main__":
    main()
