"""The first hour of two newcomers, from top to bottom: one has environments and a robot, the other a layer to compare.

Everything is done as they do it, by commands and scripts in processes of their own; only the sizes are small.

    pytest -m slow -n 0 tests/test_first_hour.py     # minutes of one core
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
def shell(tmp_path: Path) -> Shell:
    """Runs a `decision-rnn` command in the working folder, or what `python` is to run; returns all that it prints."""
    folders = {name: str(tmp_path / name.lower()) for name in ("DECISION_RNN_DATA", "DECISION_RNN_CACHE")}
    environment = {**os.environ, **folders, "OMP_NUM_THREADS": "1"}

    def run(*words: str, python: str | None = None, code: int = 0, folder: Path = tmp_path) -> str:
        command = [sys.executable, *(["-c", python] if python else ["-m", "decision_rnn"]), *words]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=600)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def rows(text: str) -> list[str]:
    """The rows of the table of scores, each a target and the mean return."""
    lines = [line for line in text.splitlines() if "±" in line and line.split()[0][-1].isdigit()]
    assert lines, text
    return [line.split("±")[0] for line in lines]


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
observation, _ = environment.reset(seed=0)
policy.reset(target_return=float(target))
reward, done = 0.0, False
while not done:
    action = policy(observation, reward)
    assert environment.action_space.contains(action.astype(np.float32)), action
    observation, reward, terminated, truncated, _ = environment.step(action)
    done = terminated or truncated
"""


@pytest.mark.parametrize("environment_id", ["Pendulum-v1", "InvertedPendulum-v5", "Humanoid-v5"])
def test_environment_from_recording_to_a_file_elsewhere(environment_id: str, shell: Shell, tmp_path: Path) -> None:
    shell("record", environment_id, "--policy", "random", "--episodes", "20", "--output", "local/first")
    shell("train", "local/first", "--output", "run", "--evaluation.episodes", "2", *SMALL)
    scores = rows(shell("evaluate", "run", "--episodes", "3"))
    shell("export", "run", "--output", "policy")
    assert rows(shell("evaluate", "policy.onnx", "--episodes", "3")) == scores
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(tmp_path / "policy.onnx", elsewhere)
    shell("policy.onnx", environment_id, scores[0].split()[0], python=ELSEWHERE, folder=elsewhere)


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

ROBOT = """
import numpy as np
from decision_rnn.deploy import Policy

policy = Policy.load("robot.onnx")
policy.reset(target_return=-10)
low, high = policy.metadata["action"]["low"], policy.metadata["action"]["high"]
for _ in range(100):
    action = policy(np.random.normal(0, 100, 2), -1.0)
    assert np.isfinite(action).all() and (action >= low).all() and (action <= high).all()
policy(np.array([np.nan, 0]), 0.0)
"""


def test_robot_without_an_environment_from_log_to_policy(shell: Shell) -> None:
    pytest.importorskip("pandas", reason="needs pip install -e '.[logs]'")
    shell(python=LOG)
    columns = ["--observations", "joint_*", "--actions", "torque", "--reward", "reward", "--episode", "trial"]
    shell("data", "import", "robot.csv", "--name", "local/robot", *columns)
    assert "joint_0" in shell("data", "info", "local/robot")
    assert "not evaluated" in shell("train", "local/robot", "--output", "run", *SMALL)
    shell("evaluate", "run", code=2)
    shell("export", "run", "--output", "robot.onnx")
    assert "entry 0 of the observation is nan" in shell(python=ROBOT, code=1)


CHECK = """
from layers import Average
from decision_rnn.testing import check_mixer

check_mixer(Average)
"""


def test_layer_from_its_check_to_a_package(shell: Shell, tmp_path: Path) -> None:
    layers, code = tmp_path / "layers.py", example("layers.py")
    shell("record", "Pendulum-v1", "--policy", "random", "--episodes", "10", "--output", "local/pushed")
    layers.write_text(code.replace("torch.where(reset[:, t, None], 0.0, state[0])", "state[0]"))  # forgets the resets
    assert "resets_isolate" in shell(python=CHECK, code=1)
    layers.write_text(code)
    shell(python=CHECK)

    options = "--seeds 2 --controls none --checkpoint_episodes 0 --evaluation.episodes 2 --plugins layers --output out"
    compare = ["compare", "local/pushed", "--backbones", "average,mingru", *options.split(), *SMALL]
    assert "4 runs, of which 0 are done" in shell(*compare)
    table = shell(*compare)
    assert "4 runs, of which 4 are done" in table
    assert "| average |" in table

    run = "out/local-pushed/average-seed0"
    shell("package", run, "--plugins", "layers", "--output", "shared")
    evaluate = ["evaluate", run, "--plugins", "layers", "--episodes", "2"]
    scores = rows(shell(*evaluate))

    # The activation changes: whoever evaluates the old weights is told so.
    layers.write_text(code.replace("self.input(x)", "torch.tanh(self.input(x))"))
    printed = shell(*evaluate)
    assert "layers" in next(line for line in printed.splitlines() if line.startswith("warning: "))
    assert rows(printed) != scores

    # Elsewhere, without the plugin, the package still plays as it was made.
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "shared", elsewhere / "shared")
    assert rows(shell("evaluate", "shared", "--episodes", "2", folder=elsewhere)) == scores
    shell("shared/policy.onnx", "Pendulum-v1", "-800", python=ELSEWHERE, folder=elsewhere)
