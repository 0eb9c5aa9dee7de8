"""Time of an evaluation of 100 episodes, beside the environments alone.

    python scripts/bench/rollout.py [--agent RUN]

Gymnasium's environments alone take the recorded actions of the same episodes in the same order, on one core. Ratios
below 1 say by how much an evaluation takes longer: CPU time on one core, wall time with a process on every core.
"""

import argparse
import statistics
import time
from functools import partial

import numpy as np
from measure import Row, compare, main

from decision_rnn import load_agent
from decision_rnn.environments.playing import make_group, play_together
from decision_rnn.evaluation.actor import EnvironmentActor
from decision_rnn.evaluation.rollout import episode_groups, rollout
from decision_rnn.utils.workers import available_cores

EPISODES, SEED, TARGET = 100, 1_000_000, 3600.0


class Recorder(EnvironmentActor):
    """An actor that keeps its actions: for every group of episodes, those of each step."""

    groups: list[list[np.ndarray]] = []  # noqa: RUF012 - of one instance

    def step(self, observation, reward, reset, target_return, state):
        action, state = super().step(observation, reward, reset, target_return, state)
        if reset.all():
            self.groups.append([])
        self.groups[-1].append(action.copy())
        return action, state


def replay(environment_id: str, groups: list[list[np.ndarray]]) -> np.ndarray:
    """Returns of the episodes when the environments take recorded actions, without an agent."""
    returns = np.zeros(EPISODES)
    for numbers, actions in zip(episode_groups(EPISODES, environment_id), groups, strict=True):
        remaining = iter(actions)
        with make_group(environment_id, len(numbers)) as group:
            firsts = [each.reset(seed=SEED + number)[0] for each, number in zip(group, numbers, strict=True)]
            for step in play_together(group, firsts, lambda *_, remaining=remaining: next(remaining)):
                returns[np.array(numbers)[step.rows]] += step.rewards
    return returns


def bench(options: argparse.Namespace) -> list[Row]:
    trained = load_agent(options.agent)
    environment_id = trained.provenance.environment_id
    play = partial(rollout, environment_id=environment_id, target_returns=[TARGET], episodes=EPISODES, seed=SEED)
    actor, recorder = EnvironmentActor(trained), Recorder(trained)
    (recorded,) = play(recorder)
    works = {
        f"rollout/episodes-{EPISODES}": lambda: play(actor)[0]["return"],
        f"rollout/episodes-{EPISODES}/all-cores": lambda: play(actor, processes=available_cores())[0]["return"],
        "rollout/environments-alone": lambda: replay(environment_id, recorder.groups),
    }
    cpu: dict[str, list[float]] = {name: [] for name in works}
    wall: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(options.rounds):
        for name, work in works.items():
            start = time.process_time(), time.perf_counter()
            returns = work()
            cpu[name].append(time.process_time() - start[0])
            wall[name].append(time.perf_counter() - start[1])
            if not np.array_equal(returns, recorded["return"]):
                raise RuntimeError("the same actions did not give the same episodes: the times are not comparable")
    one, all_cores, alone = works
    rows = []
    for name, times in ((one, cpu), (all_cores, wall)):
        medians = {key: statistics.median(times[key]) for key in (name, alone)}
        rows += compare(medians, alone, "s", 1)[:1]
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="pretrained/hopper-medium", help="as for `decision-rnn evaluate`")
    main(bench, parser, rounds=3)
