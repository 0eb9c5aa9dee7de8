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
from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import mean, median

from results_folder import RESULTS, ROOT, Made, command_line, write_report

from decision_rnn.checkpoint import last_checkpoint, load_agent
from decision_rnn.config import EvaluationConfig
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.report import describe_target
from decision_rnn.evaluation.results import TargetResult
from decision_rnn.plots import plot_asked_against_achieved, plot_comparison

SWEEP = tuple(range(600, 4201, 300))
COMMON = (1200, 2700)  # returns that the data have many of


WINDOW = EvaluationConfig(episodes=10, state="window")


def windowed(target_returns: Sequence[float | None]) -> EvaluationConfig:
    """How the same returns are asked for with a window; None stands for cloning, which is asked for nothing."""
    asked = tuple(target for target in target_returns if target is not None)
    return replace(WINDOW, target_returns=asked or None)


def distance(targets: list[TargetResult]) -> float:
    """How far, in %, the median return is from what was asked for, on average over COMMON and the seeds."""
    asked = [(median(t.returns), t.target_return) for t in targets if COMMON[0] <= t.target_return <= COMMON[1]]
    return 100 * mean(abs(achieved / target - 1) for achieved, target in asked)


def describe_distances(curves: dict[str, list[TargetResult]]) -> str:
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
    asked = comparison["protocol"]["target_returns"]
    if comparison["protocol"]["state"] != "carry":
        raise SystemExit("the window's scores stand beside those of a carried state: leave out --evaluation.state")
    cloning = asked == [None]
    curves, rows = {}, []
    for entry in comparison["variants"]:
        name = entry["label"]
        agents = [load_agent(last_checkpoint(runs / f"{name}-seed{seed}")) for seed in entry["seeds"]]
        if not cloning:
            sweep = EvaluationConfig(episodes=20, target_returns=SWEEP)
            curves[name] = [target for agent in agents for target in evaluate(agent, sweep).targets]
        by_window = [evaluate(agent, windowed(asked)).targets for agent in agents]
        cells = [name]
        for i, carried in enumerate(entry["targets"]):
            cells += [f"{carried['score']:.1f}", f"{mean(targets[i].score_mean for targets in by_window):.1f}"]
        rows.append(f"| {' | '.join(cells)} |")
    sweep_text = ""
    if not cloning:
        sweep_of = {name: [asdict(target) for target in targets] for name, targets in curves.items()}
        (results / "sweep.json").write_text(json.dumps(sweep_of) + "\n")
        data_max = comparison["dataset"]["return_max"]
        plot_asked_against_achieved(curves, data_max, results / "asked-achieved.png")
        sweep_text = (
            "Asked for more, or less, than the targets (20 episodes for each of the seeds and returns):\n\n"
            f"![asked against achieved](asked-achieved.png)\n\n{describe_distances(curves)}\n\n"
        )

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
        + sweep_text
        + "All this carries the state over the whole episode. The same agents when the last "
        + f"{WINDOW.window} steps are run again for every action ({WINDOW.episodes} episodes for each of the seeds "
        + "and returns):\n\n| variant |"
        + "".join(f" {describe_target(target)}, carried | window |" for target in asked)
        + "\n| ---"
        + " | --- | ---" * len(asked)
        + " |\n"
        + "\n".join(rows),
        made,
    )


if __name__ == "__main__":
    main()
