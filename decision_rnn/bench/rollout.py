"""The cost of an evaluation compared with the environments alone, and the cost of one action."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from gymnasium import Env
from tqdm import tqdm

from decision_rnn.agent import ActingState, DecisionAgent
from decision_rnn.backbones import registered
from decision_rnn.bench.measure import Baseline, Row, Timing, check_rounds, compare, interleaved, timed
from decision_rnn.checkpoint import last_checkpoint, load_agent
from decision_rnn.config import DEFAULT_BACKBONE, RunConfig, TrainingConfig
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.environments import make_environment
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.summary import DataSummary
from decision_rnn.errors import InputError
from decision_rnn.evaluation.actor import Actor, WindowActor, prepare_to_act
from decision_rnn.evaluation.rollout import RolloutResult, Task, one_thread, rollout
from decision_rnn.training.loop import prepare
from decision_rnn.workers import default_processes

DATASET = "hopper-medium"
EPISODES = 100
SEED = 1_000_000
BATCHES = (1, 64)
WINDOW = 20
TRAINING_STEPS = 500
ACTING_ROUNDS = 10  # per round of the evaluation, which takes seconds
ACTING_CALLS = 200  # of one timing with carried state

Clock = Callable[[], float]


class _Recorder:
    """An actor that keeps its actions: for every group of episodes, those of each step."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.groups: list[list[np.ndarray]] = []

    def initial_state(self, target_return: torch.Tensor) -> ActingState:
        self.groups.append([])
        return self.actor.initial_state(target_return)

    def act(
        self, observation: torch.Tensor, reward: torch.Tensor, reset: torch.Tensor | None, state: ActingState
    ) -> tuple[torch.Tensor, ActingState]:
        action, state = self.actor.act(observation, reward, reset, state)
        self.groups[-1].append(action.numpy().copy())
        return action, state


class Recording:
    """The episodes of a rollout and their actions.

    Args:
        actor: In evaluation mode, on the CPU.
        environment_id: A Gymnasium id.
        target_returns: Target returns.
        episodes: Episodes per target return.
        seed: Seed of the first episode.
    """

    def __init__(
        self, actor: Actor, environment_id: str, target_returns: Sequence[float], episodes: int, seed: int
    ) -> None:
        self.task = Task(actor, environment_id, tuple(target_returns), episodes, seed, None)
        self.recorder = _Recorder(actor)
        results = self._rollout(self.recorder)
        self.returns = np.concatenate([result.returns for result in results])
        self.lengths = np.concatenate([result.lengths for result in results])

    def time_rollout(self, clock: Clock, processes: int) -> float:
        """Seconds to repeat the whole rollout, including starting processes and creating environments."""
        begun = clock()
        results = self._rollout(self.task.actor, processes)
        taken = clock() - begun
        self._check(np.concatenate([result.returns for result in results]))
        return taken

    def time_environments(self, clock: Clock) -> float:
        """Seconds for the same environments to take the same actions in the same order, without agent, on one core."""
        begun = clock()
        returns = np.zeros(len(self.returns))
        for group, steps in zip(self.task.groups(), self.recorder.groups, strict=True):
            environments = {i: self._begin(i) for i in group}
            for step, actions in enumerate(steps):
                running = [i for i in group if self.lengths[i] > step]
                for i, action in zip(running, actions, strict=True):
                    returns[i] += environments[i].step(action)[1]
        taken = clock() - begun
        self._check(returns)
        return taken

    def _begin(self, number: int) -> Env:
        environment = make_environment(self.task.environment_id)
        environment.reset(seed=self.task.seed + number % self.task.episodes)
        return environment

    def _rollout(self, actor: Actor, processes: int = 1) -> list[RolloutResult]:
        task = self.task
        return rollout(actor, task.environment_id, task.target_returns, task.episodes, task.seed, processes)

    def _check(self, returns: np.ndarray) -> None:
        if not np.array_equal(returns, self.returns):
            raise RuntimeError("the same actions did not give the same episodes: the times are not comparable")


def time_episodes(recording: Recording, rounds: int) -> list[Row]:
    """Rows `rollout/episodes-N` and `rollout/episodes-N/all-cores`, in seconds; ratio: over the environments alone.

    Compares CPU time on one core with CPU time on one core, and wall time with one process per core with the wall time
    of the environments on one core.
    """
    name, cpu, wall = f"rollout/episodes-{len(recording.returns)}", time.process_time, time.perf_counter
    alone = "rollout/environments-alone"
    timings: dict[str, Timing] = {
        name: partial(recording.time_rollout, cpu, 1),
        alone: partial(recording.time_environments, cpu),
        f"{name}/all-cores": partial(recording.time_rollout, wall, default_processes()),
        f"{alone}/wall": partial(recording.time_environments, wall),
    }
    seconds = interleaved(timings, rounds, warmup=0, description="timing episodes")
    return [
        Row(played, seconds[played], "s", Baseline(against, seconds[against]), seconds[played] / seconds[against])
        for played, against in ((name, alone), (f"{name}/all-cores", f"{alone}/wall"))
    ]


def time_acting(agent: DecisionAgent, rounds: int) -> list[Row]:
    """Rows `rollout/act-B` and `rollout/window-20/act-B`, in µs per environment step, for batch sizes of 1 and 64.

    Compares carried state with the same agent re-run on its last 20 steps for every action, the Decision Transformer's
    protocol.
    """
    timings = {}
    for batch in BATCHES:
        timings[f"rollout/act-{batch}"] = timed(_acting(agent, agent, batch), calls=ACTING_CALLS)
        window = WindowActor(agent, WINDOW)
        timings[f"rollout/window-{WINDOW}/act-{batch}"] = timed(_acting(window, agent, batch), calls=WINDOW)
    with torch.inference_mode():
        seconds = interleaved(timings, rounds, warmup=2, description="timing actions")
    rows = []
    for batch in BATCHES:
        names = (f"rollout/act-{batch}", f"rollout/window-{WINDOW}/act-{batch}")
        rows += compare({name: 1e6 * seconds[name] / batch for name in names}, names[1], "µs")
    return rows


def bench_rollout(rounds: int = 3, run: Path | None = None) -> list[Row]:
    """Time an evaluation of 100 episodes, on one core and on all, against the environments alone, and one action.

    The episodes are split evenly over the dataset's target returns (hopper-medium: 50 each for 3600 and 1800) and
    stepped in groups, as in `decision-rnn evaluate`. The environments alone take the same recorded actions on one core,
    from the same seeds in the same order. Creating and resetting environments is included on both sides. It is an
    error if all cores together do not play exactly the same episodes as one core.

    Args:
        rounds: Number of timings of each evaluation; actions are timed ten times as often.
        run: Folder of a trained run; if left out, a minGRU is first trained for 500 steps.

    Returns:
        Rows `rollout/episodes-100`, CPU time of one process, and `rollout/episodes-100/all-cores`, wall time with one
        process per core, in seconds, ratio: time over that of the environments alone; `rollout/act-1` and
        `rollout/act-64` in µs per environment step, ratio: the time of re-running a window of 20 steps over the row's.

    Raises:
        InputError: If `run` has no usable checkpoint, or there are no rounds.
    """
    check_rounds(rounds)  # before the training
    with one_thread():
        agent, spec = _briefly_trained() if run is None else _of_run(run)
        agent = prepare_to_act(agent)
        targets = spec.target_returns
        recording = Recording(agent, spec.environment_id, targets, EPISODES // len(targets), SEED)
        return [*time_episodes(recording, rounds), *time_acting(agent, ACTING_ROUNDS * rounds)]


def _of_run(run: Path) -> tuple[DecisionAgent, DatasetSpec | DataSummary]:
    trained = load_agent(last_checkpoint(run))
    if trained.config.observation.mask != "none":
        raise InputError(f"the agent of {run} does not see whole observations: measure one that does")
    return trained.agent, trained.provenance


def _briefly_trained() -> tuple[DecisionAgent, DatasetSpec | DataSummary]:
    """A briefly trained agent, whose episodes are about as long as those of a trained one."""
    dataset = open_dataset(DATASET)
    spec = dataset.spec
    training = TrainingConfig(steps=TRAINING_STEPS, warmup_steps=TRAINING_STEPS // 10, device="cpu")
    backbone = registered(DEFAULT_BACKBONE).config(name=DEFAULT_BACKBONE)
    config = RunConfig(dataset=DATASET, backbone=backbone, training=training)
    agent, trainer, stream = prepare(config, dataset.open(), spec.return_scale)
    for _ in tqdm(range(TRAINING_STEPS), desc="training an agent to time", unit="step", disable=None):
        trainer.step(stream.sample())
    return agent, spec


def _acting(actor: Actor, agent: DecisionAgent, batch: int) -> Callable[[], None]:
    """Consecutive actions in a batch of environments, with the same noise as every observation."""
    generator = torch.Generator().manual_seed(0)
    observation = agent.encoder.mean + agent.encoder.std * torch.randn(
        batch, agent.encoder.features, generator=generator
    )
    reward = torch.ones(batch)
    state = actor.initial_state(torch.full((batch,), 3600.0))

    def work() -> None:
        nonlocal state
        _, state = actor.act(observation, reward, None, state)

    return work
