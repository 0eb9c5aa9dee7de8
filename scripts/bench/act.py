"""Time of an action: an exported policy, its 8-bit weights, the agent, and the agent re-run on a window of 20 steps.

    python scripts/bench/act.py [--agent RUN]

Microseconds for each environment; a new episode begins every 1,000 steps.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from measure import Row, Work, compare, main, measure

from decision_rnn import load_agent
from decision_rnn.deploy import Policy
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.evaluation.actor import Actor, RecurrentActor, WindowActor, prepare_to_act

BATCHES = (1, 64, 1024)
WINDOW, EPISODE = 20, 1000


def acting(actor: Actor, size: int, batch: int) -> Work:
    """Consecutive actions of an agent, from a full window on."""
    generator = torch.Generator().manual_seed(0)
    observation, reward = torch.randn(batch, size, generator=generator), torch.ones(batch)
    target = torch.full((batch,), 3600.0)
    state, steps = actor.initial_state(target), 0

    def work() -> None:
        nonlocal state, steps
        state = actor.initial_state(target) if steps % EPISODE == 0 else state
        state, steps = actor.act(observation, reward, state)[1], steps + 1

    for _ in range(WINDOW):
        work()
    return work


def acting_policy(path: Path, batch: int) -> Work:
    """Consecutive actions of an exported policy."""
    policy, steps = Policy.load(path, num_envs=batch), 0
    observation = np.random.default_rng(0).normal(size=(batch, policy.observation_layout.size)).astype(np.float32)
    reward = np.ones(batch, np.float32)

    def work() -> None:
        nonlocal steps
        if steps % EPISODE == 0:
            policy.reset(3600.0)
        policy.act(observation, reward)
        steps += 1

    return work


def bench(options: argparse.Namespace) -> list[Row]:
    trained, rows = load_agent(options.agent), []
    agent = prepare_to_act(trained.agent)
    size = agent.encoder.features
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        policies = {"runtime": Path(folder) / "policy.onnx", "runtime-int8": Path(folder) / "int8.onnx"}
        export_onnx(trained, policies["runtime"])
        export_onnx(trained, policies["runtime-int8"], weights="int8")
        for batch in BATCHES:
            works = {f"act/{name}-{batch}": acting_policy(path, batch) for name, path in policies.items()}
            works[f"act/eager-{batch}"] = acting(RecurrentActor(agent), size, batch)
            window = f"act/window-{WINDOW}-{batch}"
            works[window] = acting(WindowActor(agent, WINDOW), size, batch)
            rows += compare(measure(works, options.rounds), window, "µs", 1e6 / batch)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="pretrained/hopper-medium", help="as for `decision-rnn evaluate`")
    main(bench, parser, rounds=20)
