"""Makes results/hopper-medium/: four backbones, three seeds, one table and two pictures.

    python scripts/hopper_medium.py                      # about 45 minutes on two cores; goes on where it stopped
    python scripts/hopper_medium.py --name hopper-medium-cloning --backbones mingru --agent.return_conditioning false
    python scripts/hopper_medium.py --name hopper-medium-paper --config configs/hopper-medium-paper.yaml

What is not an option of this script goes to `decision-rnn compare`.
"""

import argparse
import json
import shutil
import subprocess
from statistics import mean, median
from typing import Any

from results_folder import RESULTS, ROOT, Made, command_line, write_report

from decision_rnn.checkpoint import last_checkpoint, load_agent
from decision_rnn.config import EvaluationConfig
from decision_rnn.data.catalog import open_store
from decision_rnn.evaluation.results import evaluate
from decision_rnn.plots import plot_asked_against_achieved, plot_comparison

SWEEP = tuple(range(600, 4201, 300))
COMMON = (1200, 2700)  # returns that the data have many of
WINDOWED = EvaluationConfig(episodes=10, state="window")


def distance(targets: list[dict[str, Any]]) -> float:
    """How far, in %, the median return is from what was asked for, on average over COMMON and the seeds."""
    asked = [target for target in targets if COMMON[0] <= target["target_return"] <= COMMON[1]]
    return 100 * mean(abs(median(target["returns"]) / target["target_return"] - 1) for target in asked)


def describe_distances(curves: dict[str, list[dict[str, Any]]]) -> str:
    """One sentence on every backbone's distance."""
    each = ", ".join(f"{name} {distance(targets):.1f}%" for name, targets in curves.items())
    return f"From {COMMON[0]} to {COMMON[1]} the median return is off what is asked by, on average: {each}."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--name", default="hopper-medium", help="folder under results/ and runs/")
    options, rest = parser.parse_known_args()
    runs, results = ROOT / "runs" / options.name, RESULTS / options.name
    compare = [
        "compare",
        "hopper-medium",
        "--backbones",
        "mingru,minlstm,lru,transformer",
        "--seeds",
        "3",
        "--jobs",
        "2",
    ]
    subprocess.run(["decision-rnn", *compare, *rest, "--output", str(runs)], cwd=ROOT, check=True)

    results.mkdir(parents=True, exist_ok=True)
    shutil.copy(runs / "comparison.json", results)
    comparison = json.loads((runs / "comparison.json").read_text())
    plot_comparison(comparison, results / "scores.png")
    curves, windowed = {}, []
    for entry in comparison["backbones"]:
        name = entry["backbone"]
        settings = EvaluationConfig(episodes=20, target_returns=SWEEP)
        agents = [load_agent(last_checkpoint(runs / f"{name}-seed{seed}")) for seed in comparison["seeds"]]
        curves[name] = [target for agent in agents for target in evaluate(agent, settings)["targets"]]
        by_window = [evaluate(agent, WINDOWED)["targets"] for agent in agents]
        cells = [name]
        for i, carried in enumerate(entry["targets"]):
            scores = [targets[i]["score_mean"] for targets in by_window]
            cells += [f"{carried['score_iqm']:.1f}", f"{mean(scores):.1f}"]
        windowed.append(f"| {' | '.join(cells)} |")
    (results / "sweep.json").write_text(json.dumps(curves) + "\n")
    data_max = float(open_store("hopper-medium").episode_returns.max())
    plot_asked_against_achieved(curves, data_max, results / "asked-achieved.png")

    made = Made(
        command_line(),
        comparison["commits"],
        comparison["seeds"],
        comparison["hardware"],
        comparison["versions"],
        f"data fingerprint {comparison['dataset']['fingerprint'][:16]}",
    )
    write_report(
        results / "README.md",
        f"# {options.name}\n\n"
        + (runs / "comparison.md").read_text()
        + "\n![scores](scores.png)\n\n"
        + "Asked for more, or less, than the two targets (20 episodes for each of the seeds and returns):\n\n"
        + "![asked against achieved](asked-achieved.png)\n\n"
        + f"{describe_distances(curves)}\n\n"
        + "All this carries the state over the whole episode. The same agents when the last "
        + f"{WINDOWED.window} steps are run again for every action ({WINDOWED.episodes} episodes for each of the seeds "
        + "and returns):\n\n| backbone |"
        + "".join(f" asked {asked:g}, carried | window |" for asked in comparison["protocol"]["target_returns"])
        + "\n| ---"
        + " | --- | ---" * len(comparison["protocol"]["target_returns"])
        + " |\n"
        + "\n".join(windowed),
        made,
    )


if __name__ == "__main__":
    main()
