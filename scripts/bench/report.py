"""Makes results/speed/: the speed of training steps, rollouts, batches and exported policies, as tables and JSON.

python scripts/bench.py [--run RUN]     # a few minutes; RUN: the agent whose episodes are timed
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from results_folder import RESULTS as ALL_RESULTS
from results_folder import Made, write_report

RESULTS = ALL_RESULTS / "speed"
HEAD = "| | median | ratio | baseline |\n| --- | --- | --- | --- |\n"


def table(path: Path) -> str:
    """The rows of a benchmark's JSON file as a Markdown table."""
    lines = []
    for row in json.loads(path.read_text()):
        against = row["baseline"]
        beside = (
            "itself" if against["name"] == row["name"] else f"{against['name']} {against['value']:.4g} {row['unit']}"
        )
        lines.append(f"| {row['name']} | {row['value']:.4g} {row['unit']} | {row['ratio']:.2f} | {beside} |")
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", help="a trained run's folder, for `bench rollout`")
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    made = Made.here()
    sections = []
    for name in ("train", "rollout", "data", "deploy"):
        path = RESULTS / f"{name}.json"
        command = [sys.executable, "-m", "bench", name]
        if name == "rollout" and options.run:
            command += ["--run", options.run]
        subprocess.run([*command, "--json", str(path)], check=True)
        sections.append(f"## {name}\n\n`python -m bench {name}`\n\n{table(path)}")
    write_report(
        RESULTS / "README.md",
        "# Speed\n\nOn one thread: medians of the process's CPU time, candidates and baselines in turn, round after "
        "round. Ratio: how many times better than the baseline; for rollout/episodes-100, time over that of the "
        "environments alone on one core, and for its all-cores both by the clock on the wall; by that clock are "
        "processes/ and deploy/start-up/, import, load and first action, too. deploy/ is the agent "
        "pretrained/hopper-medium. The "
        "Decision Transformer is our plain-torch re-creation of the published one, with its "
        "dropout and three tokens per step (scripts/bench/decision_transformer.py). \n\n" + "\n".join(sections),
        made,
    )


if __name__ == "__main__":
    main()
