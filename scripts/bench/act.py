"""Time of an action: an exported policy, the agent, and the agent re-run on a window of 20 steps.

    python scripts/bench/act.py [--agent RUN]

Microseconds for each environment; a new episode begins every 1,000 steps.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from measure import Row, Work, compare, main, measure

from decision_rnn import load_agent
from decision_rnn.deploy import Policy
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.evaluation.acting import Actor
from decision_rnn.evaluation.actor import EnvironmentActor

BATCHES = (1, 64, 1024)
WINDOW, EPISODE = 20, 1000


def acting(actor: Actor, batch: int) -> Work:
    """Consecutive actions of an agent or of an exported policy, from a full window on."""
    observation = np.random.default_rng(0).normal(size=(batch, actor.observation_layout.size)).astype(np.float32)
    reward, steps = np.ones(batch, np.float32), 0

    def work() -> None:
        nonlocal steps
        if steps % EPISODE == 0:
            actor.reset(3600.0)
        actor.act(observation, reward)
        steps += 1

    for _ in range(WINDOW):
        work()
    return work


def bench(options: argparse.Namespace) -> list[Row]:
    trained, rows = load_agent(options.agent), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.onnx"
        export_onnx(trained, path)
        for batch in BATCHES:
            actors: dict[str, Actor] = {f"act/runtime-{batch}": Policy.load(path)}
            actors[f"act/eager-{batch}"] = EnvironmentActor(trained)
            window = f"act/window-{WINDOW}-{batch}"
            actors[window] = EnvironmentActor(trained, inference="window", window=WINDOW)
            works = {name: acting(actor, batch) for name, actor in actors.items()}
            rows += compare(measure(works, options.rounds), window, "µs", 1e6 / batch)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="pretrained/hopper-medium", help="as for `decision-rnn evaluate`")
    main(bench, parser, rounds=20)
