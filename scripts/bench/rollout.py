"""Time of an evaluation of 100 episodes, beside the environments alone.

    python scripts/bench/rollout.py [--agent RUN]

The environments alone take the recorded actions of the same episodes in the same order, on one core. Ratios below 1 say
by how much an evaluation takes longer: CPU time on one core, wall time with a process on every core.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from measure import Row, compare, main

from decision_rnn import load_agent
from decision_rnn.environments.registry import make_environment
from decision_rnn.evaluation.actor import EnvironmentActor
from decision_rnn.evaluation.rollout import episode_groups, rollout
from decision_rnn.utils.workers import default_processes

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


def replay(environment_id: str, groups: list[list[np.ndarray]], lengths: np.ndarray) -> np.ndarray:
    """Returns of the episodes when the environments take recorded actions, without an agent."""
    returns = np.zeros(EPISODES)
    for numbers, steps in zip(episode_groups(EPISODES, environment_id), groups, strict=True):
        environments = {number: make_environment(environment_id) for number in numbers}
        for number, environment in environments.items():
            environment.reset(seed=SEED + number)
        for step, actions in enumerate(steps):
            running = [number for number in numbers if lengths[number] > step]
            for number, action in zip(running, actions, strict=True):
                returns[number] += environments[number].step(action)[1]
        for environment in environments.values():
            environment.close()
    return returns


def bench(options: argparse.Namespace) -> list[Row]:
    trained = load_agent(options.agent)
    environment_id = trained.provenance.environment_id
    play = partial(rollout, environment_id=environment_id, target_returns=[TARGET], episodes=EPISODES, seed=SEED)
    actor, recorder = EnvironmentActor(trained), Recorder(trained)
    (recorded,) = play(recorder)

    def seconds(clock: Callable[[], float], processes: int) -> float:
        """Time of the evaluation or, with no process, of the environments alone."""
        start = clock()
        if processes:
            returns = play(actor, processes=processes)[0]["return"]
        else:
            returns = replay(environment_id, recorder.groups, recorded["length"])
        if not np.array_equal(returns, recorded["return"]):
            raise RuntimeError("the same actions did not give the same episodes: the times are not comparable")
        return clock() - start

    timings = {
        "rollout/episodes-100": (time.process_time, 1),
        "rollout/environments-alone": (time.process_time, 0),
        "rollout/episodes-100/all-cores": (time.perf_counter, default_processes()),
        "rollout/environments-alone/wall": (time.perf_counter, 0),
    }
    values: dict[str, list[float]] = {name: [] for name in timings}
    for _ in range(options.rounds):
        for name, (clock, processes) in timings.items():
            values[name].append(seconds(clock, processes))
    medians = {name: statistics.median(times) for name, times in values.items()}
    one, alone, all_cores, wall = timings
    rows = compare({one: medians[one], alone: medians[alone]}, alone, "s", 1)[:1]
    return [*rows, *compare({all_cores: medians[all_cores], wall: medians[wall]}, wall, "s", 1)[:1]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="pretrained/hopper-medium", help="as for `decision-rnn evaluate`")
    main(bench, parser, rounds=3)
