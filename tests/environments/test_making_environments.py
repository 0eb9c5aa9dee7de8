"""Making environments: what is registered, and what errors name."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from decision_rnn.environments.registry import (
    MissingEnvironmentError,
    check_environment,
    make_environment,
)
from decision_rnn.utils.errors import InputError


class Camera(gymnasium.Env):
    """An environment whose observations are images."""

    observation_space = gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)


def fail(**arguments: Any) -> gymnasium.Env[Any, Any]:
    raise ImportError("no\nengine")


@pytest.mark.parametrize(
    ("name", "entry_point", "message"),
    [
        ("Hoper-v5", None, r"'Hoper-v5'.*Hopper-v5\?"),
        ("Broken-v0", fail, "Broken-v0.*no engine.*'simulator'"),
        ("Camera-v0", Camera, "Camera-v0.*images"),
    ],
)
def test_environment_that_agents_cannot_play_is_refused(
    name: str, entry_point: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if entry_point is not None:
        monkeypatch.setitem(gymnasium.registry, name, EnvSpec(name, entry_point))
    with pytest.raises(InputError, match=message):
        check_environment(name, ["simulator"])


@pytest.mark.parametrize("name", ["os:Nothing-v0", *(f"decision_rnn/{name}-v0" for name in ("TMaze-2", "TMaze-09"))])
def test_only_registered_environments_are_made(name: str) -> None:
    with pytest.raises(MissingEnvironmentError, match=name):
        make_environment(name)


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("popgym", "popgym-Absent-v0"),
        ("ogbench", "decision_rnn/ogbench-scene-oraclerep-v0"),
        ("ocbench", "decision_rnn/ocbench-hanoi-lite-single-task1-v0"),
    ],
)
def test_missing_package_is_named_with_its_extra(package: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(gymnasium.registry, name, raising=False)
    with pytest.raises(MissingEnvironmentError, match=rf"{name}.*'\.\[{package}\]'"):
        make_environment(name)


OWN_HANDLER = "import mujoco, sys\nmujoco.set_mju_user_warning(lambda text: print('own', file=sys.stderr))\n"
UNSTABLE = """
import numpy as np
from decision_rnn.environments.registry import make_environment
for environment_id in ("HalfCheetah-v5", "Hopper-v4", "Walker2d-v4"):
    environment = make_environment(environment_id)
    environment.reset(seed=0)
environment.unwrapped.data.qpos[1] = np.nan
environment.step(environment.action_space.sample())
"""


@pytest.mark.parametrize(("code", "start"), [(UNSTABLE, "MuJoCo: Nan, Inf"), (OWN_HANDLER + UNSTABLE, "own")])
def test_mujoco_warnings_go_to_stderr_or_the_programs_handler(code: str, start: str, tmp_path: Path) -> None:
    """Deprecations of model files and versions are not shown: users of an environment cannot fix them."""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(start)
    assert len(set(done.stderr.splitlines())) == 1
    assert list(tmp_path.iterdir()) == []
