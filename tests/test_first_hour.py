"""The first hour of two newcomers, from top to bottom: one has a robot and environments, the other a layer to compare.

Everything is done as they do it, by commands and scripts in processes of their own; only the sizes are small.

    pytest -m slow -n 0 tests/test_first_hour.py     # three and a half minutes of one core
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from guide import example

pytestmark = pytest.mark.slow

SMALL = ["--backbone.width", "16", "--backbone.layers", "1", "--training.context", "10", "--training.steps", "20"]

Shell = Callable[..., str]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Their own data, nobody else's; one thread, since other tests run at the same time."""
    folders = {name: str(tmp_path / name.lower()) for name in ("DECISION_RNN_DATA", "DECISION_RNN_CACHE")}
    return {**os.environ, **folders, "MINARI_DATASETS_PATH": str(tmp_path / "minari"), "OMP_NUM_THREADS": "1"}


@pytest.fixture
def shell(environment: dict[str, str], tmp_path: Path) -> Shell:
    """Runs a `decision-rnn` command in the working folder, or what `python` is to run; returns all that it prints."""

    def run(*words: str, python: str | None = None, code: int = 0, folder: Path = tmp_path) -> str:
        command = [sys.executable, *(["-c", python] if python else ["-m", "decision_rnn"]), *words]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=600)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def rows(text: str) -> list[str]:
    """The rows of the table of scores: target, return, normalised score."""
    found = [line for line in text.splitlines() if "±" in line and line.split()[0][-1].isdigit()]
    assert found, text
    return found


# The first newcomer: environments of Gymnasium whose actions are not in [-1, 1]

ANYTHING = """
import sys
import gymnasium

space = gymnasium.make(sys.argv[2]).action_space  # decision-rnn record ENVIRONMENT
space.seed(0)

def at_random(observation):
    return space.sample()
"""

ELSEWHERE = """
import sys

class Blocked:  # another machine, on which torch and the others are not installed
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "onnx", "minari", "h5py", "safetensors", "scipy", "tensorboard"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import gymnasium
import numpy as np
from decision_rnn.deploy import Policy

file, environment_id, target = sys.argv[1:]
environment, policy = gymnasium.make(environment_id), Policy.load(file)
for seed in range(3):
    observation, _ = environment.reset(seed=seed)
    policy.reset(target_return=float(target))
    reward, done = 0.0, False
    while not done:
        action = policy(observation, reward)
        assert environment.action_space.contains(action.astype(np.float32)), action
        observation, reward, terminated, truncated, _ = environment.step(action)
        done = terminated or truncated
"""


@pytest.mark.parametrize("environment_id", ["Pendulum-v1", "InvertedPendulum-v5", "Humanoid-v5"])
def test_environment_from_recording_to_a_file_that_plays_elsewhere(
    environment_id: str, shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "anything.py").write_text(ANYTHING)
    shell("record", environment_id, "--policy", "anything.at_random", "--episodes", "20", "--output", "local/first")
    shell("data", "info", "local/first")
    trained = shell("train", "local/first", "--output", "run", "--evaluation.episodes", "2", *SMALL)
    assert "actions are scaled to" in trained  # and not to [-1, 1]
    scores = rows(shell("evaluate", "run", "--episodes", "3"))
    shell("export", "run", "--output", "policy")
    assert [line.split("±")[0] for line in rows(shell("evaluate", "policy.onnx", "--episodes", "3"))] == [
        line.split("±")[0] for line in scores
    ]
    target = scores[0].split()[0]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(tmp_path / "policy.onnx", elsewhere)
    shell("policy.onnx", environment_id, target, python=ELSEWHERE, folder=elsewhere)


LOOP = """
import gymnasium
import numpy as np
import decision_rnn

run = decision_rnn.Run("run")
envs = gymnasium.make_vec("Pendulum-v1", num_envs=3)
actor = run.actor(target_return=[-800, -1000, -1200], env=envs)
observation, _ = envs.reset(seed=1)
reward, done, returns = np.zeros(3), np.zeros(3, bool), np.zeros(3)
for _ in range(200):
    action = actor(observation, reward, done)
    assert envs.action_space.contains(action)
    observation, reward, terminated, truncated, _ = envs.step(action)
    done, returns = terminated | truncated, returns + reward
assert done.all()

for seed, (target, right) in enumerate(zip((-800, -1000, -1200), returns), start=1):  # as each alone
    (alone,) = run.evaluate(target, episodes=1, seed=seed, processes=1, progress=False).targets
    assert abs(alone.returns[0] - right) < 1, (alone.returns, right)

forgetful = run.actor(target_return=-800, env=envs)
observation, _ = envs.reset(seed=1)
reward = np.zeros(3)
try:
    for _ in range(500):
        observation, reward, *_ = envs.step(forgetful(observation, reward))
except decision_rnn.InputError as error:
    print(error)
"""

OWN = """
import gymnasium
import numpy as np
from gymnasium.envs.classic_control import PendulumEnv
import decision_rnn

class Rig(PendulumEnv):  # never registered
    def step(self, action):
        self.steps = getattr(self, "steps", 0) + 1
        return *super().step(action)[:3], self.steps % 50 == 0, {}

decision_rnn.record(lambda observation: -observation[2:], Rig(), "local/rig", episodes=4)
run = decision_rnn.train("local/rig", {"name": "mingru", "width": 16, "layers": 1}, steps=5, output="rig")
actor = run.actor(-300)
first = actor(np.zeros(3), 0.0)
for broken in (np.array([0, np.nan, 0]), [0, None, 0]):
    try:
        actor(broken, 0.0)
    except decision_rnn.InputError as error:
        print(error)
assert np.isfinite(actor(np.zeros(3), 0.0)).all()  # the next good reading
"""


def test_agent_in_loops_of_their_own(shell: Shell, tmp_path: Path) -> None:
    """A vector of environments, with and without `done`; an environment that was never registered; a broken sensor."""
    (tmp_path / "anything.py").write_text(ANYTHING)
    shell("record", "Pendulum-v1", "--policy", "anything.at_random", "--episodes", "5", "--output", "local/first")
    shell("train", "local/first", "--output", "run", "--evaluation.episodes", "0", *SMALL)
    assert "done is missing: the vector environment resets itself" in shell(python=LOOP)
    printed = shell(python=OWN)
    assert "agents trained on local/rig are not evaluated" in printed
    assert printed.count("entry 1 of the observation is nan: give a finite number") == 2


# The same one's robot, which has a log and no environment

LOG = """
import csv
import random

random.seed(0)
with open("robot.csv", "w", newline="") as file:
    log = csv.writer(file)
    log.writerow(["trial", "joint_0", "joint_1", "torque", "reward"])
    for trial in range(20):
        joints = [random.gauss(0, 1), random.gauss(0, 1)]
        for step in range(30):
            torque = -2 * joints[0] + random.gauss(0, 0.1)
            log.writerow([trial, *joints, torque, -joints[0] ** 2])
            joints = [joints[0] + 0.1 * torque, joints[1] + 0.1 * joints[0]]
"""

PARQUET = """
import pyarrow.csv, pyarrow.parquet

pyarrow.parquet.write_table(pyarrow.csv.read_csv("robot.csv"), "robot.parquet")
"""

ROBOT = """
import sys
import numpy as np
from decision_rnn.deploy import Policy

policy = Policy.load("robot.onnx")
policy.reset(target_return=-10)
action = policy(np.zeros(2), 0.0)
try:
    policy(np.array([np.nan, 0]), 0.0)
except ValueError as error:
    print(error)
for _ in range(100):
    action = policy(np.random.normal(0, 100, 2), -1.0)
    low, high = policy.metadata["action"]["low"], policy.metadata["action"]["high"]
    assert np.isfinite(action).all() and (action >= low).all() and (action <= high).all()
"""


@pytest.mark.parametrize("file", ["robot.csv", "robot.parquet"])
def test_robot_without_an_environment_from_its_log_to_its_policy(file: str, shell: Shell) -> None:
    pytest.importorskip("pyarrow", reason="needs pip install -e '.[logs]'")
    shell(python=LOG)
    shell(python=PARQUET)
    columns = ["--observations", "joint_*", "--actions", "torque", "--reward", "reward", "--episode", "trial"]
    shell("data", "import", file, "--name", "local/robot", *columns)
    assert "joint_0" in shell("data", "info", "local/robot")
    assert "not evaluated" in shell("train", "local/robot", "--output", "run", *SMALL)
    assert "own loop" in shell("evaluate", "run", code=2)
    shell("export", "run", "--output", "robot.onnx")
    assert "entry 0 of the observation is nan" in shell(python=ROBOT)


# The second newcomer: a layer of their own, compared with two of ours, changed, and shared

PUSH = """
import numpy as np

def push(observation):
    return np.clip(-observation[..., 2:], -2, 2)
"""
CHECK = """
from layers import Average
from decision_rnn.testing import check_mixer

check_mixer(Average)
"""
READ = """
import decision_rnn

for row in decision_rnn.read_comparison("compared").table():
    print(row["variant"], row["target_return"], row["score"], row["significant"])
"""


def test_layer_from_its_check_to_a_package(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "pushing.py").write_text(PUSH)
    layers = tmp_path / "layers.py"
    layers.write_text(example("layers.py"))
    shell("record", "Pendulum-v1", "--policy", "pushing.push", "--episodes", "10", "--output", "local/pushed")

    faulty = example("layers.py").replace("torch.where(reset[:, t, None], 0.0, state[0])", "state[0]")
    for text, code in (
        (faulty, 1),
        (example("layers.py"), 0),
    ):  # it forgets the resets
        layers.write_text(text)
        assert ("resets_isolate" in shell(python=CHECK, code=code)) == (code == 1)

    options = (
        "--seeds 2 --controls none --checkpoint_episodes 0 --evaluation.episodes 2 --plugins layers --output compared"
    )
    compare = ["compare", "local/pushed", "--backbones", "average,mingru,gru", *options.split(), *SMALL]
    assert "6 runs, of which 0 are done" in shell(*compare)
    assert "6 runs, of which 6 are done" in shell(*compare)
    table = shell(python=READ)
    assert {line.split()[0] for line in table.splitlines()} == {"average", "mingru", "gru"}

    run = "compared/local-pushed/average-seed0"
    shell("package", run, "--plugins", "layers", "--output", "shared")
    scores = rows(shell("evaluate", run, "--plugins", "layers", "--episodes", "2"))

    # The activation changes: whoever evaluates the old weights is told so.
    layers.write_text(example("layers.py").replace("self.input(x)", "torch.tanh(self.input(x))"))
    printed = shell("evaluate", run, "--plugins", "layers", "--episodes", "2")
    assert "layers" in next(line for line in printed.splitlines() if line.startswith("warning: "))
    assert rows(printed) != scores

    # Elsewhere, without the plugin, the package still plays as it was made.
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "shared", elsewhere / "shared")
    played = shell("evaluate", "shared", "--episodes", "2", folder=elsewhere)
    assert [line.split("±")[0] for line in rows(played)] == [line.split("±")[0] for line in scores]
    shell("shared/policy.onnx", "Pendulum-v1", "-800", python=ELSEWHERE, folder=elsewhere)
