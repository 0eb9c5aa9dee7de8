"""Exported policies and packages of a plugin's layer, condition and objective act where the plugin is not imported."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType
from typing import Any

import pytest
from guide import example
from made_policy import made_agent

from decision_rnn.agent import CONDITIONS, OBJECTIVES
from decision_rnn.backbones import BACKBONES
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.deploy.policies import load_policy
from decision_rnn.evaluation import video
from decision_rnn.evaluation.evaluate import score
from decision_rnn.runs.checkpoint import TrainedAgent, write_agent

Cli = Callable[..., CompletedProcess[str]]


@pytest.fixture
def own(registries: None, monkeypatch: pytest.MonkeyPatch) -> TrainedAgent:
    """An agent of the tutorials' layer, condition and objective, which are imported as the plugin `foreign`."""
    module = ModuleType("foreign")
    monkeypatch.setitem(sys.modules, "foreign", module)
    for file in ("layers.py", "mycondition.py", "myobjective.py"):
        exec(example(file), module.__dict__)
    options = {"condition": module.RewardRateConfig(), "objective": module.HuberConfig()}
    trained = made_agent(module.AverageConfig(width=8, layers=1, decay=0.8), **options)
    config = replace(trained.config, plugins=("foreign",))
    return replace(trained, config=replace(config, evaluation=replace(config.evaluation, episodes=2)))


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes this process one that has not imported the plugin."""

    def forget() -> None:
        monkeypatch.delitem(sys.modules, "foreign")
        for registry, name in ((BACKBONES, "average"), (CONDITIONS, "reward_rate"), (OBJECTIVES, "huber")):
            registry.pop(name)

    return forget


@pytest.mark.parametrize(("p_randomgoal", "conditioning"), [(0.3, None), (0, "token")])
def test_policy_of_a_plugin_may_have_goals_in_hindsight(
    own: TrainedAgent, forget: Callable[[], None], p_randomgoal: float, conditioning: Any, tmp_path: Path
) -> None:
    """Which the default condition for such goals would not allow."""
    training = replace(own.config.training, goal_relabeling="hindsight", p_randomgoal=p_randomgoal)
    config = replace(own.config, training=training, agent=replace(own.config.agent, conditioning=conditioning))
    export_onnx(replace(own, config=config), tmp_path / "policy.onnx")
    forget()
    loaded = load_policy(tmp_path / "policy.onnx").config
    assert (loaded.condition.name, loaded.training, loaded.agent) == ("reward_rate", config.training, config.agent)


@pytest.mark.usefixtures("no_screen")
@pytest.mark.parametrize("packaged", [False, True])
def test_policy_acts_without_the_plugin_it_was_trained_with(
    own: TrainedAgent, forget: Callable[[], None], packaged: bool, inline_cli: Cli, tmp_path: Path
) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    export_onnx(own, folder / "policy.onnx")
    if packaged:
        write_agent(folder, own)
    expected = score(own, own.config.evaluation, processes=1)
    forget()
    name = "agent" if packaged else "agent/policy.onnx"
    done = inline_cli("evaluate", name, "--processes", "1", "--output", "evaluated")
    assert done.returncode == 0, done.stderr
    rows = [line for line in str(expected).splitlines() if "±" in line]
    assert [line for line in done.stdout.splitlines() if "±" in line] == rows
    assert ("--plugins foreign" in done.stdout) is packaged
    config = load_policy(folder / "policy.onnx").config
    assert (config.plugins, config.backbone.name, vars(config.backbone)["decay"]) == (("foreign",), "average", 0.8)
    assert (config.condition.name, config.objective.name, config.takes_target) == ("reward_rate", "huber", True)
    seed, target = own.config.evaluation.seed, expected.targets[0]
    done = inline_cli("play", name, "--seed", str(seed), "--target_return", str(target.target_return))
    assert done.returncode == 0, done.stderr
    assert f"return {target.returns[0]:.1f}," in done.stdout.splitlines()[-1]
    (end,) = video.film(load_policy(folder / "policy.onnx"), Path("a.mp4"), target.target_return, 1, seed)
    assert end.earned == pytest.approx(target.returns[0], abs=0.05)
