"""The page's environments and policies, run under Node, against Gymnasium and our runtime in Python.

    pytest -n 0 -m slow tests/deploy/test_browser_fidelity.py

Needs Node 18 or later, and the runtimes in the cache or a network.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from decision_rnn.deploy import Policy
from decision_rnn.deploy.browser import BODIES

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")]

SCRIPT = Path(__file__).with_name("browser_node.mjs")
STEPS, SEEDS = 100, range(3)


def node(page: Path, environment: gymnasium.Env, **request: Any) -> dict[str, Any]:
    request |= {"page": str(page), "id": environment.spec.id, "xml": environment.unwrapped.fullpath}
    done = subprocess.run(["node", str(SCRIPT)], input=json.dumps(request), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("environment_id", BODIES)
@pytest.mark.parametrize(("amplitude", "placed"), [(0.3, 1), (1.0, STEPS)])
def test_steps_are_those_of_gymnasium(shipped_page: Path, environment_id: str, amplitude: float, placed: int) -> None:
    """A hundred steps from one start; and single steps from a hundred states, reached by actions of full size, with
    which halfcheetah is chaotic: a start that is off by 1e-15 is off by 1 a hundred steps later, in Python too. Both
    from the state that Gymnasium draws with the same seed."""
    environment = gymnasium.make(environment_id)
    body = environment.unwrapped
    for seed in SEEDS:
        environment.reset(seed=seed)
        actions = amplitude * np.random.default_rng(seed).uniform(-1, 1, (STEPS, body.action_space.shape[0]))
        states, expected = [], []
        for action in actions:
            states.append([body.data.qpos.tolist(), body.data.qvel.tolist()])
            expected.append(body.step(action)[:3])
        answer = node(shipped_page, environment, steps={"states": states[:placed], "actions": actions.tolist()})
        for step, (observation, reward, terminated) in zip(answer["steps"], expected, strict=True):
            np.testing.assert_allclose(step["observation"], observation, rtol=0, atol=1e-6)
            assert step["reward"] == pytest.approx(reward, abs=1e-6)
            assert step["terminated"] == terminated
    assert any(terminated for *_, terminated in expected) == (environment_id != "HalfCheetah-v5")
    same = 8 if environment_id == "HalfCheetah-v5" else None  # its velocities are normal, drawn in another way
    for seed, start in zip((0, 7), answer["starts"], strict=True):
        observation, _ = environment.reset(seed=seed)
        np.testing.assert_allclose(start[:same], observation[:same], rtol=0, atol=1e-12)
        assert np.abs(start).max() < 2


def test_returns_are_those_of_the_policy_in_gymnasium(shipped_page: Path) -> None:
    """Not of every episode: rounding turns some after hundreds of steps."""
    environment, policy = gymnasium.make("Hopper-v5"), Policy.load(shipped_page / "policy.onnx")
    seeds = range(1_000_000, 1_000_000 + 4)
    request = {"policy": str(shipped_page / "policy.onnx"), "target": 1200, "seeds": list(seeds), "steps": 1000}
    returns = node(shipped_page, environment, episodes=request)["returns"]
    expected = []
    for seed in seeds:
        policy.reset(1200.0)
        (observation, _), reward, done, earned = environment.reset(seed=seed), 0.0, False, 0.0
        while not done:
            observation, reward, terminated, truncated, _ = environment.step(policy.act(observation, reward))
            done, earned = terminated or truncated, earned + float(reward)
        expected.append(earned)
    differences = np.abs(np.subtract(returns, expected))
    assert np.median(differences) < 1
    assert abs(np.mean(returns) - np.mean(expected)) < 3 * np.std(expected) / np.sqrt(len(expected))
