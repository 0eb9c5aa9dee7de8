"""`make_environment`, which silences the libraries of environments."""

import subprocess
import sys
from pathlib import Path

import pytest

from decision_rnn.data.environments import make_environment
from decision_rnn.errors import InputError

UNSTABLE = """
import numpy as np
from decision_rnn.data.environments import make_environment
for environment_id in ("HalfCheetah-v5", "Hopper-v4", "Walker2d-v4"):
    environment = make_environment(environment_id)
    environment.reset(seed=0)
environment.unwrapped.data.qpos[1] = np.nan
environment.step(environment.action_space.sample())
"""


def test_mujoco_warnings_go_to_stderr_and_not_to_a_log_file(tmp_path: Path) -> None:
    """Deprecations of model files and versions are not shown: users of an environment cannot fix them."""
    done = subprocess.run([sys.executable, "-c", UNSTABLE], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("MuJoCo: Nan, Inf or huge value in QPOS at DOF 1")
    assert list(tmp_path.iterdir()) == []


def test_make_environment_keeps_a_mujoco_warning_handler_set_by_the_program(tmp_path: Path) -> None:
    code = "import mujoco, sys\nmujoco.set_mju_user_warning(lambda text: print('own', file=sys.stderr))\n" + UNSTABLE
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert set(done.stderr.splitlines()) == {"own"}


def test_make_environment_of_unregistered_id_raises() -> None:
    with pytest.raises(InputError, match="no environment 'os:Nothing-v0' here: install"):
        make_environment("os:Nothing-v0")
