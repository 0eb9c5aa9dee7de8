"""How much agents look at their goals: how much their loss rises when each slice is shown the goals of another one. An
agent with a memory can lower its loss by going on as before, whatever it is asked for: Wen et al., "Fighting Copycat
Agents in Behavioral Cloning from Observation Histories" (2020).

    python scripts/goal_use.py runs/ogbench-steps/ogbench-cube-single-play-v0/*-seed0

Prints a table: for each run that was trained on goals in hindsight, the objective's loss over 20 batches of its data,
drawn as in training but by another seed, after 15 in which states were carried; the same with goals of another slice;
and the difference.
"""

import argparse
from collections.abc import Sequence

import torch

from decision_rnn import InputError, TrainedAgent, load_agent
from decision_rnn.data.catalog import open_dataset
from decision_rnn.training.slices import goals_of, slices_of

SEED = 1_000_000
BEFORE, BATCHES = 15, 20


def losses(trained: TrainedAgent) -> tuple[float, float]:
    """The mean loss with a slice's own goals, and with those of another one."""
    config = trained.config
    dataset = open_dataset(config.dataset, path=config.path)
    goals = goals_of(config, dataset.spec.observation_space)
    if goals is None:
        raise InputError(f"training.goals is {config.training.goals}: name runs with goals in hindsight")
    stream = slices_of(config, dataset.open(), goals, SEED, torch.device("cpu"))
    states, found = [None, None], []
    with torch.inference_mode():
        for _ in range(BEFORE + BATCHES):
            batch = stream.sample()
            others = batch.observation.clone()
            others[..., goals.asked] = batch.observation[..., goals.asked].roll(1, 0)
            shown = batch, batch._replace(observation=others)
            outputs = [trained.agent(*pair) for pair in zip(shown, states, strict=True)]
            states = [output.state if stream.tbptt_slices > 1 else None for output in outputs]
            found.append([output.metrics["loss"] for output in outputs])
    own, other = torch.tensor(found[BEFORE:], dtype=torch.float64).mean(0).tolist()
    return own, other


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="folders of runs")
    print("| run | loss | with other goals | difference |")
    print("| --- | --- | --- | --- |")
    for run in parser.parse_args(arguments).runs:
        own, other = losses(load_agent(run))
        print(f"| {run.rstrip('/').rpartition('/')[2]} | {own:.3f} | {other:.3f} | {other - own:+.3f} |")


if __name__ == "__main__":
    main()
