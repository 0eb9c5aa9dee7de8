"""Makes an agent that is shipped with the package, from a run:

    decision-rnn train hopper-medium --output runs/pretrained --evaluation.episodes 0
    python scripts/make_pretrained.py runs/pretrained hopper-medium

The parameters are rounded to half precision before the agent is evaluated, so that its card and results describe what
is shipped. `--output` defaults to decision_rnn/runs/pretrained.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import torch

from decision_rnn.deploy.package import write_package
from decision_rnn.evaluation.evaluate import score
from decision_rnn.runs.checkpoint import load_agent
from decision_rnn.runs.hub import find_agent
from decision_rnn.utils.files import new_directory, remove_directory

ROOT = Path(__file__).parents[1] / "decision_rnn" / "runs" / "pretrained"
LARGEST = 2_000_000
"""Maximum size of a shipped agent in bytes."""


def make(run: str, name: str, output: Path, episodes: int) -> Path:
    """Write the agent of a run to the folder `name` in `output`, replacing an existing one."""
    trained = load_agent(find_agent(run))
    with torch.no_grad():
        for parameter in trained.agent.parameters():
            parameter.copy_(parameter.half())
    result = score(trained, replace(trained.config.evaluation, episodes=episodes))
    print(str(result))
    folder = output / name
    remove_directory(folder)
    with new_directory(folder) as new:
        for sentence in write_package(new, trained, [result], f"pretrained/{name}", shipped=True):
            sys.exit(sentence)
        size = sum(path.stat().st_size for path in new.rglob("*") if path.is_file())
        if size > LARGEST:
            sys.exit(f"it has {size:,} bytes, of which {LARGEST:,} may be shipped: train a smaller agent")
    print(f"written to {folder}, {size:,} bytes")
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the run's folder")
    parser.add_argument("name", help="of the agent, after pretrained/")
    parser.add_argument("--output", type=Path, default=ROOT)
    parser.add_argument("--episodes", type=int, default=100, help="per target return")
    options = parser.parse_args()
    make(options.run, options.name, options.output, options.episodes)
