"""The cost of an evaluation compared with the environments alone, and the cost of one action."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from bench.measure import Baseline, Row, compare, interleaved, measure
from decision_rnn.agent import ActingState, DecisionAgent
from decision_rnn.deploy.hub import find_agent
from decision_rnn.environments.registry import make_environment
from decision_rnn.environments.settings import check_environment
from decision_rnn.evaluation.actor import Actor, WindowActor, prepare_to_act
from decision_rnn.evaluation.rollout import episode_groups, one_thread, rollout
from decision_rnn.training.checkpoint import load_agent
from decision_rnn.utils.parsing import PositiveInt
from decision_rnn.utils.workers import default_processes

PRETRAINED = "pretrained/hopper-medium"
"""The agent that is timed by default: a minGRU of the default size, shipped with the package."""
EPISODES = 100
SEED = 1_000_000
BATCHES = (1, 64)
WINDOW = 20
EPISODE = 1000
"""Number of steps after which all environments begin a new episode, where actions are timed."""


def bench_rollout(rounds: PositiveInt = 3, run: str = PRETRAINED) -> list[Row]:
    """Time an evaluation of 100 episodes, on one core and on all, against the environments alone, and one action.

    The episodes are split evenly over the dataset's target returns (hopper-medium: 50 each for 3600 and 1800) and
    stepped in groups, as in `decision-rnn evaluate`. The environments alone take the same recorded actions on one core,
    from the same seeds in the same order. Creating and resetting environments is included on both sides. It is an
    error if all cores together do not play exactly the same episodes as one core.

    Args:
        rounds: Number of timings of each evaluation; actions are timed ten times as often.
        run: A run's or packaged agent's folder, pretrained/NAME, or org/name of the hub.

    Returns:
        Rows `rollout/episodes-100`, CPU time of one process, and `rollout/episodes-100/all-cores`, wall time with one
        process per core, in seconds, ratio: time over that of the environments alone; `rollout/act-1` and
        `rollout/act-64` in µs per environment step, ratio: the time of re-running a window of 20 steps over the row's.

    Raises:
        InputError: If there is no such agent.
    """
    with one_thread():
        trained = load_agent(find_agent(run))
        agent, data = prepare_to_act(trained.agent), trained.provenance
        episodes = time_episodes(agent, check_environment(data.environment_id), data.target_returns, EPISODES, rounds)
        actors = {
            "rollout/act": partial(acting, agent, agent),
            f"rollout/window-{WINDOW}/act": partial(acting, WindowActor(agent, WINDOW), agent),
        }
        return [*episodes, *time_actions(actors, BATCHES, 10 * rounds)]


class Recorder:
    """An actor that keeps its actions: for every group of episodes, those of each step."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.groups: list[list[np.ndarray]] = []

    def initial_state(self, target: Tensor) -> ActingState:
        self.groups.append([])
        return self.actor.initial_state(target)

    def act(self, observation: Tensor, reward: Tensor, state: ActingState) -> tuple[Tensor, ActingState, Tensor | None]:
        action, state, value = self.actor.act(observation, reward, state)
        self.groups[-1].append(action.numpy().copy())
        return action, state, value


def time_episodes(
    actor: Actor, environment_id: str, target_returns: Sequence[float], episodes: int, rounds: int
) -> list[Row]:
    """Rows `rollout/episodes-N` and `rollout/episodes-N/all-cores`, in seconds; ratio: over the environments alone.

    Compares CPU time on one core with CPU time on one core, and wall time with one process per core with the wall time
    of the environments on one core.
    """
    each = episodes // len(target_returns)
    play = partial(rollout, environment_id=environment_id, target_returns=target_returns, episodes=each, seed=SEED)
    recorder = Recorder(actor)
    recorded = play(recorder)
    right, lengths = (np.concatenate([getattr(of, name) for of in recorded]) for name in ("returns", "lengths"))

    def seconds_of(clock: Callable[[], float], processes: int) -> float:
        """The time of a rollout or, with no process, of the environments alone."""
        begun = clock()
        if processes:
            returns = np.concatenate([result.returns for result in play(actor, processes=processes)])
        else:
            returns = replay(environment_id, each, recorder.groups, lengths)
        taken = clock() - begun
        if not np.array_equal(returns, right):
            raise RuntimeError("the same actions did not give the same episodes: the times are not comparable")
        return taken

    name, alone = f"rollout/episodes-{episodes}", "rollout/environments-alone"
    timings = {
        name: partial(seconds_of, time.process_time, 1),
        alone: partial(seconds_of, time.process_time, 0),
        f"{name}/all-cores": partial(seconds_of, time.perf_counter, default_processes()),
        f"{alone}/wall": partial(seconds_of, time.perf_counter, 0),
    }
    seconds = interleaved(timings, rounds, "timing episodes")
    return [
        Row(played, seconds[played], "s", Baseline(against, seconds[against]), seconds[played] / seconds[against])
        for played, against in ((name, alone), (f"{name}/all-cores", f"{alone}/wall"))
    ]


def replay(environment_id: str, episodes: int, recorded: list[list[np.ndarray]], lengths: np.ndarray) -> np.ndarray:
    """The returns when the environments take recorded actions in the same order, without an agent; `episodes` are those
    of each target return."""
    returns = np.zeros(len(lengths))
    for group, steps in zip(episode_groups(len(lengths), environment_id), recorded, strict=True):
        environments = {number: make_environment(environment_id) for number in group}
        for number, environment in environments.items():
            environment.reset(seed=SEED + number % episodes)
        for step, actions in enumerate(steps):
            running = [number for number in group if lengths[number] > step]
            for number, action in zip(running, actions, strict=True):
                returns[number] += environments[number].step(action)[1]
    return returns


def time_actions(
    actors: Mapping[str, Callable[[int], Callable[[], object]]], batches: Sequence[int], rounds: int
) -> list[Row]:
    """Rows `<name>-<batch>`, in µs per environment step; ratio: the time of the last name over the row's.

    Args:
        actors: For each name, a function that prepares one action, given the batch size.
        batches: Batch sizes.
        rounds: Number of timings of each.
    """
    rows = []
    for batch in batches:
        with torch.inference_mode():
            works = {f"{name}-{batch}": prepared(batch) for name, prepared in actors.items()}
            seconds = measure(works, rounds, "timing actions")
        rows += compare(seconds, list(works)[-1], "µs", 1e6 / batch)
    return rows


def acting(actor: Actor, agent: DecisionAgent, batch: int) -> Callable[[], None]:
    """Consecutive actions in a batch of environments, with the same noise as every observation."""
    observation = torch.randn(batch, agent.encoder.features, generator=torch.Generator().manual_seed(0))
    reward = torch.ones(batch)
    state, step = actor.initial_state(torch.full((batch,), 3600.0)), 0

    def work() -> None:
        nonlocal state, step
        if step % EPISODE == 0:
            state = actor.initial_state(torch.full((batch,), 3600.0))
        _, state, _ = actor.act(observation, reward, state)
        step += 1

    for _ in range(WINDOW):  # until a window is full
        work()
    return work
