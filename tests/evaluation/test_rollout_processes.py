"""Rollouts in several processes: bitwise identical episodes; errors, killed workers and killed parents."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import gymnasium
import numpy as np
import pytest
import torch
from guide import example
from gymnasium.envs.registration import EnvSpec
from process_tree import alive, wait_until
from test_rollout import Countdown, Make, Reflex

from decision_rnn.backbones import registered
from decision_rnn.config import EvaluationConfig
from decision_rnn.environments.registry import EPISODES_AT_ONCE
from decision_rnn.evaluation import evaluate as evaluate_module
from decision_rnn.evaluation import rollout as rollout_module
from decision_rnn.evaluation.actor import actor_of
from decision_rnn.evaluation.evaluate import score
from decision_rnn.evaluation.rollout import rollout
from decision_rnn.utils.errors import InputError, MachineError

WAIT = 300
"""Seconds after which a process counts as hung; on a busy machine, importing torch alone takes twenty."""


class Dice(Reflex):
    """Takes random actions."""

    def choose(self, observation: np.ndarray, target: np.ndarray) -> np.ndarray:
        return (2 * torch.rand(len(observation), 3) - 1).numpy()


class BatchSize(Reflex):
    """Its action is the number of environments stepped together."""

    def choose(self, observation: np.ndarray, target: np.ndarray) -> np.ndarray:
        return np.full((len(observation), 3), len(observation), np.float32)


class Hapless(Reflex):
    """Calls `fail` in any process but that of the tests."""

    def __init__(self, fail: Callable[[], object]) -> None:
        super().__init__()
        self.fail, self.home = fail, os.getpid()

    def choose(self, observation: np.ndarray, target: np.ndarray) -> np.ndarray:
        if os.getpid() != self.home:
            self.fail()
        return super().choose(observation, target)


class Paid(Countdown):
    """An episode of one step whose reward is the action."""

    action_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,))

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros(8), float(action[0]), True, False, {}


class TwoWordsError(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, one: str = "oh", two: str = "dear", *, needed: None) -> None:
        super().__init__(f"{one} {two}")


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Uses groups of at most three and checks that no process is left running."""
    monkeypatch.setattr(rollout_module, "GROUP", 3)
    monkeypatch.setitem(gymnasium.registry, "Paid-v0", EnvSpec("Paid-v0", entry_point=Paid))
    yield
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("registries")
def test_agent_acts_after_its_layer_is_defined_again(pendulum: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a notebook's cell runs twice."""
    cell = ModuleType("cell")
    monkeypatch.setitem(sys.modules, "cell", cell)
    exec(example("layers.py"), cell.__dict__)
    trained, layer, settings = pendulum("average"), registered("average").cls, EvaluationConfig(episodes=2, seed=7)
    before = score(trained, replace(settings, target_returns=(-200.0, -900.0)), 1)
    exec(example("layers.py"), cell.__dict__)
    assert registered("average").cls is cell.Average is not layer
    after = score(trained, replace(settings, target_returns=(-200.0, -900.0)), 2)
    assert [target.returns for target in after.targets] == [target.returns for target in before.targets]
    assert after.key == before.key


@pytest.mark.parametrize("kind", ["recurrent", "window", Dice, BatchSize])
def test_episodes_depend_on_neither_processes_nor_other_targets(kind: str | type[Reflex], pendulum: Make) -> None:
    """Also where actions are sampled, or depend on the number of environments in the batch."""
    if isinstance(kind, str):
        actor, environment = actor_of(pendulum(), EvaluationConfig(inference=kind, window=4)), "Pendulum-v1"
    else:
        actor, environment = kind(), "Paid-v0" if kind is BatchSize else "Hopper-v5"
    play = partial(rollout, actor, environment, episodes=5, seed=70, limits=(40, None))
    one, two, three = (play(target_returns=[3600.0, 900.0], processes=count) for count in (1, 2, 3))
    alone = np.concatenate([play(target_returns=[target]) for target in (3600.0, 900.0)])
    assert one.tobytes() == two.tobytes() == three.tobytes() == alone.tobytes()
    assert len(np.unique(one["return"])) > (1 if kind is BatchSize else 4)


def test_groups_are_equal_and_as_large_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout_module, "GROUP", 50)
    for most, size in ((None, 50), (10, 10), (70, 50)):  # more than usual are never
        metadata = Paid.metadata if most is None else {**Paid.metadata, EPISODES_AT_ONCE: most}
        monkeypatch.setattr(Paid, "metadata", metadata)
        assert {len(group) for group in rollout_module.episode_groups(100, "Paid-v0")} == {size}


def bad_input() -> None:
    raise InputError("mend the agent")


def in_two_words() -> None:
    raise TwoWordsError(needed=None)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("fail", "error", "words"),
    [
        (bad_input, InputError, "^mend the agent$"),
        (in_two_words, RuntimeError, "^TwoWordsError: oh dear$"),
        (die, MachineError, "plays episodes"),
    ],
)
def test_errors_and_the_death_of_a_worker_raise(fail: Callable[[], None], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        rollout(Hapless(fail), "Hopper-v5", [1.0], 9, 0, processes=2)
    assert fail is die or fail.__name__ in str(caught.value.__cause__)  # the traceback of the process


def test_evaluation_uses_the_available_cores(pendulum: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[int] = []

    def recorded(*arguments: object) -> np.ndarray:
        processes.append(arguments[5])
        return rollout(*arguments)

    monkeypatch.setattr(evaluate_module, "rollout", recorded)
    monkeypatch.setattr(evaluate_module, "available_cores", lambda: 2)
    settings = EvaluationConfig(episodes=2, max_episode_steps=20)
    results = [score(pendulum(), settings, count) for count in (None, 1, 3)]
    assert results[0].targets == results[1].targets == results[2].targets
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # such a process cannot start others
    score(pendulum(), settings)
    assert processes == [2, 1, 3, 1]


AFTER_THREADS = """
import sys

import torch

torch.set_num_threads(4)
x = torch.randn(1000, 1000, requires_grad=True)
torch.tanh(x @ x).sum().backward()  # OpenMP's pool and autograd's thread are there

from decision_rnn import EnvironmentActor, load_agent
from decision_rnn.evaluation.rollout import rollout

actor = EnvironmentActor(load_agent("pretrained/hopper-medium"))
one, two = (rollout(actor, "Hopper-v5", [1.0], 60, 0, processes=n, limits=(50, None)) for n in (1, 2))
sys.exit(one.tobytes() != two.tobytes())
"""


def run_script(code: str, *arguments: str) -> "subprocess.Popen[bytes]":
    here = Path(__file__).parent  # which the code imports from, as this file does from the folder above
    path = os.pathsep.join([str(here.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "OMP_NUM_THREADS": "4", "PYTHONPATH": path}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=here, env=environment)


def test_processes_start_while_torch_threads_exist() -> None:
    assert run_script(AFTER_THREADS).wait(timeout=WAIT) == 0


def sleep(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


ENDLESS = """
import sys
from functools import partial

from test_rollout_processes import Hapless, rollout, rollout_module, sleep

rollout_module.GROUP = 3
rollout(Hapless(partial(sleep, sys.argv[1])), "Hopper-v5", [1.0], 9, 0, processes=2)
"""


@pytest.mark.parametrize("name", ["SIGKILL", pytest.param("SIGINT", marks=pytest.mark.slow)])
def test_processes_end_with_a_killed_or_interrupted_parent(tmp_path: Path, name: str) -> None:
    parent = run_script(ENDLESS, str(tmp_path))
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2, WAIT)
    children = [int(path.name) for path in tmp_path.iterdir()]
    parent.send_signal(signal.Signals[name])
    parent.wait(timeout=WAIT)
    wait_until(lambda: not any(alive(child) for child in children), WAIT)
