"""Rollouts in several processes: bitwise identical episodes; errors, killed workers and killed parents."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.envs.registration import EnvSpec
from process_tree import alive, wait_until
from test_rollout import Reflex
from torch import Tensor

from decision_rnn.agent import AgentConfig, DecisionAgent, agent_spec
from decision_rnn.backbones import registered
from decision_rnn.config import EvaluationConfig
from decision_rnn.environments.registry import EPISODES_AT_ONCE
from decision_rnn.evaluation import evaluate as evaluate_module
from decision_rnn.evaluation import rollout as rollout_module
from decision_rnn.evaluation.actor import Actor, WindowActor, prepare_to_act
from decision_rnn.evaluation.evaluate import score
from decision_rnn.evaluation.rollout import RolloutResult, rollout
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.utils import workers
from decision_rnn.utils.errors import EnvironmentFailure, InputError

PLUGIN = """
import gymnasium
from test_rollout import Countdown, Reflex


class Scripted(Reflex):
    pass


gymnasium.register("Corridor-v0", entry_point=Countdown)
"""


WAIT = 300
"""Seconds after which a process counts as hung; on a busy machine, importing torch alone takes twenty."""


class Dice(Reflex):
    """Takes random actions."""

    def choose(self, observation: Tensor, target: Tensor) -> Tensor:
        return 2 * torch.rand(len(observation), 3) - 1


class Hapless(Reflex):
    """Calls `fail` in any process but that of the tests."""

    def __init__(self, fail: Callable[[], None]) -> None:
        super().__init__()
        self.fail, self.home = fail, os.getpid()

    def choose(self, observation: Tensor, target: Tensor) -> Tensor:
        if os.getpid() != self.home:
            self.fail()
        return super().choose(observation, target)


class BatchSize(Reflex):
    """Its action is the number of environments stepped together."""

    def choose(self, observation: Tensor, target: Tensor) -> Tensor:
        return torch.full((len(observation), 3), float(len(observation)))


class Paid(gymnasium.Env):
    """An episode of one step whose reward is the action."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (8,))
    action_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,))

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(8), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros(8), float(action[0]), True, False, {}


class TwoWordsError(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def hopper_agent() -> DecisionAgent:
    torch.manual_seed(0)
    config = registered("mingru").config(name="mingru", width=16)
    return DecisionAgent(
        AgentConfig(), config, agent_spec(torch.zeros(11), torch.ones(11), 3, return_scale=1000.0)
    ).eval()


def digits(results: Sequence[RolloutResult]) -> list[tuple[float, list[float], list[int]]]:
    return [(result.target_return, result.returns.tolist(), result.lengths.tolist()) for result in results]


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Uses groups of at most three and checks that no process is left running."""
    monkeypatch.setattr(rollout_module, "GROUP", 3)
    yield
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("make", "environment"),
    [
        (hopper_agent, "Hopper-v5"),
        (lambda: WindowActor(hopper_agent(), 4), "Hopper-v5"),
        (Dice, "Hopper-v5"),
        (BatchSize, "Paid-v0"),
    ],
)
def test_rollout_is_identical_for_any_number_of_processes(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Actor], environment: str
) -> None:
    monkeypatch.setitem(gymnasium.registry, "Paid-v0", EnvSpec("Paid-v0", entry_point=Paid))
    one, two, three = (digits(rollout(make(), environment, [3600.0, 900.0], 5, 70, processes=n)) for n in (1, 2, 3))
    assert one == two == three
    assert len({value for _, returns, _ in one for value in returns}) > (1 if make is BatchSize else 4)


@pytest.mark.parametrize("make", [Dice, BatchSize])
def test_target_result_is_independent_of_other_targets(monkeypatch: pytest.MonkeyPatch, make: type[Reflex]) -> None:
    """Also where actions are sampled, or depend on the number of environments in the batch."""
    monkeypatch.setitem(gymnasium.registry, "Paid-v0", EnvSpec("Paid-v0", entry_point=Paid))
    environment = "Hopper-v5" if make is Dice else "Paid-v0"
    together = digits(rollout(make(), environment, [900.0, 3600.0], 4, 70))
    alone = [
        *digits(rollout(make(), environment, [900.0], 4, 70)),
        *digits(rollout(make(), environment, [3600.0], 4, 70)),
    ]
    assert together == alone


def test_100_episodes_are_two_equal_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert [len(group) for group in rollout_module.episode_groups(100, "Hopper-v5")] == [50, 50]


def test_environment_says_how_many_episodes_are_stepped_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than usual are never."""
    monkeypatch.undo()
    for said, size in ((10, 10), (70, 50)):
        heavy = type("Heavy", (Paid,), {"metadata": {**Paid.metadata, EPISODES_AT_ONCE: said}})
        monkeypatch.setitem(gymnasium.registry, "Heavy-v0", EnvSpec("Heavy-v0", entry_point=heavy))
        assert {len(group) for group in rollout_module.episode_groups(100, "Heavy-v0")} == {size}


def bad_input() -> None:
    raise InputError("mend the agent")


def in_two_words() -> None:
    raise TwoWordsError("oh", "dear")


@pytest.mark.parametrize(
    ("fail", "error", "words"),
    [(bad_input, InputError, "^mend the agent$"), (in_two_words, RuntimeError, "^TwoWordsError: oh dear$")],
)
def test_rollout_reraises_exceptions_of_a_worker_process(
    fail: Callable[[], None], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        rollout(Hapless(fail), "Hopper-v5", [1.0], 9, 0, processes=2)
    assert fail.__name__ in str(caught.value.__cause__)  # the traceback of the process


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_rollout_with_a_killed_worker_process_raises() -> None:
    with pytest.raises(EnvironmentFailure, match="a process that plays episodes has died"):
        rollout(Hapless(die), "Hopper-v5", [1.0], 9, 0, processes=2)


def test_rollout_imports_plugins_in_spawned_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS and Windows: a process inherits nothing of its parent, and its actor is a class of the plugin."""
    (tmp_path / "corridor.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(workers, "START_METHOD", "spawn")
    import corridor  # type: ignore[import-not-found]

    try:
        alone = rollout(corridor.Scripted(), "Corridor-v0", [1.0, 2.0], 3, 5)
        others = rollout(corridor.Scripted(), "Corridor-v0", [1.0, 2.0], 3, 5, processes=2, plugins=["corridor"])
        assert digits(alone) == digits(others)
    finally:
        del gymnasium.registry["Corridor-v0"], sys.modules["corridor"]


def test_evaluate_uses_available_cores_by_default(
    pendulum: Callable[..., TrainedAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def recorded(*arguments: object) -> list[RolloutResult]:
        asked.append(arguments[5])
        return rollout(*arguments)

    monkeypatch.setattr(evaluate_module, "rollout", recorded)
    monkeypatch.setattr(workers, "available_cores", lambda: 2)
    results = [score(pendulum(), EvaluationConfig(episodes=2), processes) for processes in (None, 1, 3)]
    assert results[0].targets == results[1].targets == results[2].targets
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # such a process cannot start others
    score(pendulum(), EvaluationConfig(episodes=2))
    assert asked == [2, 1, 3, 1]


def test_prepare_to_act_returns_a_copy_with_the_same_weights_and_actions() -> None:
    agent = hopper_agent().train()
    ready = prepare_to_act(agent)
    assert (agent.training, ready.training) == (True, False)
    assert all(weight.is_contiguous() for weight in agent.parameters())
    for name, weight in agent.named_parameters():
        assert torch.equal(weight, ready.get_parameter(name))
    observation, reward = torch.randn(5, 11), torch.ones(5)
    agent.eval()
    one = two = agent.initial_state(torch.full((5,), 3600.0))
    with torch.inference_mode():
        for _ in range(10):
            action, one, _ = agent.act(observation, reward, one)
            other, two, _ = ready.act(observation, reward, two)
            torch.testing.assert_close(action, other, rtol=0, atol=1e-6)


AFTER_THREADS = """
import sys

import torch

torch.set_num_threads(4)
x = torch.randn(1000, 1000, requires_grad=True)
torch.tanh(x @ x).sum().backward()  # OpenMP's pool and autograd's thread are there

from test_rollout_processes import digits, hopper_agent, rollout

agent = hopper_agent()
one, two = (digits(rollout(agent, "Hopper-v5", [1.0], 60, 0, processes=n)) for n in (1, 2))
sys.exit(one != two)
"""


def run_script(code: str, *arguments: str) -> "subprocess.Popen[bytes]":
    here = Path(__file__).parent  # which the code imports from, as this file does from the folder above
    path = os.pathsep.join([str(here.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "OMP_NUM_THREADS": "4", "PYTHONPATH": path}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=here, env=environment)


def test_rollout_processes_start_while_torch_threads_exist() -> None:
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


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGKILL", pytest.param("SIGINT", marks=pytest.mark.slow)])
def test_rollout_processes_end_with_a_killed_or_interrupted_parent(tmp_path: Path, name: str) -> None:
    parent = run_script(ENDLESS, str(tmp_path))
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2, WAIT)
    children = [int(path.name) for path in tmp_path.iterdir()]
    parent.send_signal(signal.Signals[name])
    parent.wait(timeout=WAIT)
    wait_until(lambda: not any(alive(child) for child in children), WAIT)
