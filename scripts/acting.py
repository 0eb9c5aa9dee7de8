"""Makes results/deploy/: memory and latency over a million steps of acting with an exported policy.

python scripts/acting.py [--policy policy.onnx] [--steps 1000000]     # two minutes; default: pretrained/hopper-medium

A separate process, which imports only numpy and onnxruntime, takes the steps: one environment, noise as observations,
episodes of 1,000 steps in the first half, one episode for the whole second half.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from decision_rnn.deploy import Policy

POINTS = 100
"""Number of intervals for which memory and latency are recorded."""
EPISODE = 1000
SEED = 0


def resident() -> float:
    """Resident memory of this process in MiB, as counted by Linux."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def act(path: str, steps: int) -> None:
    """Act and print, per interval, the steps so far, MiB, and the median and 99th percentile of a step's µs."""
    policy, generator = Policy.load(path), np.random.default_rng(SEED)
    piece = max(steps // POINTS, 1)
    observations = generator.normal(0, 1, (EPISODE, policy.observation_layout.size)).astype(np.float32)
    seconds = np.empty(piece)
    policy.reset()
    for step in range(steps):
        if step <= steps // 2 and step % EPISODE == 0:
            policy.reset(index=[0])
        begun = time.perf_counter()
        policy.act(observations[step % EPISODE], 1.0)
        seconds[step % piece] = time.perf_counter() - begun
        if (step + 1) % piece == 0:
            median, late = np.quantile(seconds, [0.5, 0.99]) * 1e6
            print(json.dumps([step + 1, resident(), median, late]), flush=True)


def picture(rows: np.ndarray, path: Path) -> None:
    """Plot memory and latency against the steps so far."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    memory, latency = figure.subplots(2, 1, sharex=True)
    memory.plot(rows[:, 0], rows[:, 1])
    memory.set(ylabel="process in memory, MiB", ylim=(0, 1.2 * rows[:, 1].max()))
    latency.plot(rows[:, 0], rows[:, 2], label="median")
    latency.plot(rows[:, 0], rows[:, 3], label="99th percentile")
    latency.set(xlabel="steps taken", ylabel="one step, µs", ylim=(0, 1.2 * rows[:, 3].max()))
    latency.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=Path, help="an exported policy")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path, help="folder of the report (default: results/deploy)")
    parser.add_argument("--act", action="store_true", help=argparse.SUPPRESS)  # the process that acts
    options = parser.parse_args()
    if options.act:
        act(str(options.policy), options.steps)
        return

    from results_folder import RESULTS, Made, write_report

    from decision_rnn import load_agent
    from decision_rnn.deploy import export_onnx

    folder = options.output or RESULTS / "deploy"
    folder.mkdir(parents=True, exist_ok=True)
    made = Made.here(seeds=[SEED], packages=["onnxruntime"])
    with tempfile.TemporaryDirectory() as temporary:
        policy = options.policy or Path(temporary) / "policy.onnx"
        if options.policy is None:
            export_onnx(load_agent("pretrained/hopper-medium"), policy)
        command = [sys.executable, __file__, "--act", "--policy", str(policy), "--steps", str(options.steps)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        backbone = Policy.load(policy).metadata["training"]["config"]["backbone"]
    rows = np.array([json.loads(line) for line in done.stdout.splitlines()])
    (folder / "acting.json").write_text(json.dumps(rows.round(2).tolist()) + "\n")
    picture(rows, folder / "acting.png")
    tenth = max(len(rows) // 10, 1)
    first, last = (np.median(part, axis=0) for part in (rows[:tenth], rows[-tenth:]))
    write_report(
        folder / "README.md",
        f"# {options.steps:,} steps of acting\n\nOne environment, by the runtime without torch, a "
        f"{backbone['name']} of {backbone['layers']} layers of width {backbone['width']}: episodes of {EPISODE:,} "
        "steps in the first half, one episode in the second. By the clock on the wall.\n\n"
        "| | first tenth | last tenth |\n| --- | --- | --- |\n"
        f"| process in memory, MiB | {first[1]:.1f} | {last[1]:.1f} |\n"
        f"| one step, median, µs | {first[2]:.1f} | {last[2]:.1f} |\n"
        f"| one step, 99th percentile, µs | {first[3]:.1f} | {last[3]:.1f} |\n\n"
        "![memory and latency](acting.png)",
        made,
    )


if __name__ == "__main__":
    main()
