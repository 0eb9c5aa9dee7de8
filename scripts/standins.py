"""Makes results/standins/: every stand-in compared with D4RL's dataset of that name, and how hard it is to learn from.

    decision-rnn compare --config configs/comparisons/standins.yaml --output runs/standins
    python scripts/standins.py

The first command takes two to four hours on two cores and resumes where it stopped: it trains cloning and the Decision
Transformer as published on the stand-ins for which there are published scores. The table leaves out missing results,
and results on other contents than the dataset's current ones. What standins.json says of a dataset is kept while its
recipe is the same, and so is the picture while all are: remove the file to measure and draw all of them again.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from results_folder import RESULTS as ALL_RESULTS
from results_folder import ROOT, Made, write_report
from standin_observations import REAL, SOURCE, Observations, compared

from decision_rnn.comparison.record import Comparison, read_comparison
from decision_rnn.comparison.report.parts import Table
from decision_rnn.comparison.summary import summarise
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.standin.recipes import JOINED, RECIPES
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.files import write_atomically
from decision_rnn.utils.plots import save_figure

RESULTS, RUNS = ALL_RESULTS / "standins", ROOT / "runs" / "standins"
METHODS = ("bc", "decision-transformer")
"""The variants of configs/comparisons/standins.yaml."""
PUBLISHED = {  # normalised scores of the last checkpoint of METHODS on D4RL's sets, CORL's docs/benchmarks/offline.md
    "standin/hopper-medium-replay": (29.81, 81.77),
    "standin/hopper-medium": (53.51, 65.10),
    "standin/hopper-medium-expert": (52.30, 110.44),
    "standin/halfcheetah-medium-replay": (35.66, 38.91),
    "standin/halfcheetah-medium": (42.40, 42.20),
    "standin/halfcheetah-medium-expert": (55.95, 91.55),
    "standin/walker2d-medium-replay": (21.80, 59.86),
    "standin/walker2d-medium": (63.23, 67.63),
    "standin/walker2d-medium-expert": (98.96, 107.11),
}


@dataclass(frozen=True)
class D4RLStatistics:
    """Statistics of the real D4RL dataset, for comparison: complete trajectories, undiscounted returns, steps.

    As commonly quoted, not recomputed here; those of an expert dataset follow from medium and medium-expert. None if
    unknown.
    """

    episodes: int | None = None
    return_mean: float | None = None
    return_sd: float | None = None
    return_min: float | None = None
    return_max: float | None = None
    length_mean: float | None = None


DATASETS = {
    "standin/hopper-random": D4RLStatistics(),
    "standin/hopper-medium-replay": D4RLStatistics(2041, 467, 511, -1, 3193, 197),
    "standin/hopper-medium": D4RLStatistics(2186, 1422, 379, 316, 3222, 457),
    "standin/hopper-mixed": D4RLStatistics(),
    "standin/hopper-medium-expert": D4RLStatistics(3213, 2090, 1040, 316, 3759, 622),
    "standin/hopper-expert": D4RLStatistics(1027, 3512, 326, None, 3759, 973),
    "standin/halfcheetah-random": D4RLStatistics(),
    "standin/halfcheetah-medium-replay": D4RLStatistics(202, 3093, 1681, -639, 4985, 1000),
    "standin/halfcheetah-medium": D4RLStatistics(1000, 4770, 356, -310, 5309, 1000),
    "standin/halfcheetah-medium-expert": D4RLStatistics(2000, 7713, 2970, -310, 11252, 1000),
    "standin/halfcheetah-expert": D4RLStatistics(1000, 10656, 439, None, 11252, 1000),
    "standin/walker2d-random": D4RLStatistics(),
    "standin/walker2d-medium-replay": D4RLStatistics(1093, 683, 896, -50, 4132),
    "standin/walker2d-medium": D4RLStatistics(1190, 2852, 1095, -7, 4227, 840),
    "standin/walker2d-medium-expert": D4RLStatistics(2190, 3797, None, -7, 5012, 913),
    "standin/walker2d-expert": D4RLStatistics(1000, 4922, None, None, 5012, 1000),
}
"""Every stand-in, with the statistics of the dataset that it replaces."""
TASKS = ("hopper", "halfcheetah", "walker2d")
LEVELS = ("random", "medium-replay", "medium", "medium-expert", "expert", "mixed")
HEAD = (
    *("stand-in", "steps", "episodes", "return, mean", "sd", "min", "max", "length", "score of the data", "cloning"),
    "Decision Transformer",
)
Entry = dict[str, Any]


def measure(spec: DatasetSpec, store: EpisodeStore, made: Made) -> Entry:
    """The statistics of a stand-in for the tables, and where it was made."""
    statistics = store.manifest["statistics"]
    return {
        "statistics": statistics,
        "observations": {
            "mean": store.observation_mean.round(6).tolist(),
            "sd": store.observation_std.round(6).tolist(),
        },
        "fingerprint": store.fingerprint,
        "score": float(spec.normalised(statistics["return_mean"])),
        "d4rl": asdict(DATASETS[spec.name]),
        "recipes": recipes_of(spec.name),
        "commit": made.commits[0],
        "hardware": made.hardware,
        "versions": made.versions,
    }


def recipes_of(name: str) -> list[str]:
    """The fingerprints of the recipes that a stand-in is made by."""
    return [RECIPES[part].fingerprint for part in JOINED.get(name, (name,))]


def is_kept(entry: Entry, name: str) -> bool:
    """Whether an earlier measurement has the same recipe and everything that the tables need."""
    return entry.get("recipes") == recipes_of(name) and "observations" in entry


def find_comparison(folder: Path) -> Comparison | None:
    """The comparison of a folder, else the one kept with the results; None if there is neither."""
    for path in (folder / "comparison.json", RESULTS / "comparison.json"):
        if path.is_file():
            return read_comparison(path)
    return None


def scores_of(comparison: Comparison, contents: Mapping[str, set[str]]) -> dict[str, dict[str, float]]:
    """The normalised scores by dataset and method; for a method with target returns, at the task's first one.

    Args:
        comparison: The comparison, possibly unfinished.
        contents: The known fingerprints of each dataset: a score on other contents is left out.
    """
    fingerprints = {dataset.data.name: dataset.data.fingerprint for dataset in comparison.datasets}
    scores: dict[str, dict[str, float]] = {}
    for summary in summarise(comparison):
        target = summary.of_role("bc") or summary.of_role("paper")
        if target is None or fingerprints[summary.dataset] not in contents.get(summary.dataset, set()):
            print(f"left out: {summary.variant} on {summary.dataset}, which has other contents than in the comparison")
            continue
        scores.setdefault(summary.dataset, {})[summary.variant] = target.scores.score
    return scores


def beside(ours: float, theirs: float | None, digits: int = 0) -> str:
    """Our number, with D4RL's and the relative difference in brackets."""
    if theirs is None:
        return f"{ours:,.{digits}f}"
    return f"{ours:,.{digits}f} ({theirs:,.{digits}f}, {100 * (ours - theirs) / abs(theirs):+.0f}%)"


def row(name: str, entry: Entry, scores: Mapping[str, float]) -> list[str]:
    """A line of the table."""
    ours, theirs = entry["statistics"], DATASETS[name]
    learnt = []
    for method, published in zip(METHODS, PUBLISHED.get(name, (None, None)), strict=True):
        score = f"{scores[method]:.1f}" if method in scores else ""
        learnt.append(score if published is None else f"{score} ({published:.1f})".strip())
    return [
        name.removeprefix("standin/"),
        f"{ours['steps']:,}",
        beside(ours["episodes"], theirs.episodes),
        beside(ours["return_mean"], theirs.return_mean),
        beside(ours["return_sd"], theirs.return_sd),
        f"{ours['return_min']:,.0f}" + ("" if theirs.return_min is None else f" ({theirs.return_min:,.0f})"),
        beside(ours["return_max"], theirs.return_max),
        beside(ours["length_mean"], theirs.length_mean),
        f"{entry['score']:.1f}",
        *learnt,
    ]


def draw(returns: dict[str, np.ndarray], path: Path) -> None:
    """Plot every dataset's episodes by return, with D4RL's mean, standard deviation and range above them."""
    figure, axes = plt.subplots(len(TASKS), len(LEVELS), figsize=(18, 6.6), sharex="row", layout="constrained")
    for i, task in enumerate(TASKS):
        for j, level in enumerate(LEVELS):
            axis, name = axes[i, j], f"standin/{task}-{level}"
            if name not in returns:
                axis.set_axis_off()
                continue
            axis.hist(returns[name], 50, color="#4c78a8")
            real, top = DATASETS[name], 1.12 * axis.get_ylim()[1]
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
    save_figure(figure, path, dpi=110)


def report(
    entries: Mapping[str, Entry], comparison: Comparison | None, scores: Mapping[str, Mapping[str, float]]
) -> str:
    """The text of README.md, without how it was made."""
    machines = "; ".join(
        f"on {cpu} with {', '.join(f'{package} {version}' for package, version in packages)}"
        for cpu, packages in sorted({(e["hardware"]["cpu"], tuple(e["versions"].items())) for e in entries.values()})
    )
    rows = [row(name, entries[name], scores.get(name, {})) for name in entries]
    learnt = "There is no comparison yet."
    if comparison is not None:
        methods = [method for method in METHODS if any(method in of for of in scores.values())]
        cells = [cell for cell in comparison.trials if cell.variant in methods]
        commits = dict.fromkeys(cell.commit or "unknown" for cell in cells)
        processors = dict.fromkeys(cell.hardware["cpu"] for cell in cells)
        learnt = (
            f"The scores of {' and '.join(methods)}: `{comparison.command}` at commit {', '.join(commits)}, seed"
            f"{'s' * (len(comparison.seeds) > 1)} {', '.join(map(str, comparison.seeds))}, on "
            f"{' and '.join(processors)}, in comparison.json."
            if methods
            else f"`{comparison.command}` has no score of {' or '.join(METHODS)} on these sets."
        )
    return "\n\n".join(
        [
            "# The stand-ins beside D4RL's sets",
            "In brackets the value of the real set as commonly quoted (not recomputed here) and how far ours is from "
            "it; for the expert sets the value follows from medium and medium-expert. Cloning and the Decision "
            "Transformer as published: our scores of the last checkpoint, where the comparison named below has them, "
            "the latter's at the first target of its paper; in brackets CORL's on the real set, trained for longer.",
            Table(HEAD[0], HEAD, rows).markdown(),
            "![returns](returns.png)",
            "## Observations",
            f"The real sets' statistics are those that {SOURCE} give.",
            *(compared(name, Observations(**entries[name]["observations"])) for name in REAL if name in entries),
            f"The sets were made {machines}: standins.json names each one's commit, machine and fingerprint. {learnt} "
            "Tables and picture:",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparison", type=Path, default=RUNS, help="its folder (default: runs/standins)")
    comparison = find_comparison(parser.parse_args().comparison)
    made = Made.here()
    RESULTS.mkdir(parents=True, exist_ok=True)
    kept = RESULTS / "standins.json"
    entries: dict[str, Entry] = json.loads(kept.read_text()) if kept.is_file() else {}
    used = set() if comparison is None else {dataset.data.name for dataset in comparison.datasets}
    picture = RESULTS / "returns.png"
    draws = not picture.is_file() or not all(is_kept(entries.get(name, {}), name) for name in DATASETS)
    returns: dict[str, np.ndarray] = {}
    contents: dict[str, set[str]] = {}
    for name in DATASETS:
        if name not in used and not draws:
            continue  # collecting it takes minutes, and nothing of it is needed
        store = open_dataset(name).open()
        returns[name] = store.episode_returns
        if not is_kept(entries.get(name, {}), name):
            entries[name] = measure(open_dataset(name).spec, store, made)
            kept.write_text(json.dumps({key: entries[key] for key in DATASETS if key in entries}, indent=1) + "\n")
        contents[name] = {store.fingerprint, entries[name]["fingerprint"]}
    if draws:
        draw(returns, picture)
    scores = {} if comparison is None else scores_of(comparison, contents)
    if comparison is not None:
        text = json.dumps(comparison.to_dict(), separators=(",", ":")) + "\n"
        write_atomically(RESULTS / "comparison.json", text.encode())
        made = replace(made, seeds=comparison.seeds)
    ordered = {name: entries[name] for name in DATASETS}
    write_report(RESULTS / "README.md", report(ordered, comparison, scores), made)


if __name__ == "__main__":
    main()
