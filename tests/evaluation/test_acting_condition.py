"""Options of the condition that an evaluation sets, in place of those of the training."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
import yaml
from agent_specs import agent_spec
from gymnasium.spaces import Box

import decision_rnn
from decision_rnn import EnvironmentActor, InputError
from decision_rnn.agent import DecisionAgent
from decision_rnn.agent.conditions.time_to_goal import TIME_LEVELS
from decision_rnn.config import from_dict, to_dict
from decision_rnn.deploy import load_policy
from decision_rnn.evaluation.results import read_result, stored_result
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent, save_checkpoint

SHORT = ("--episodes", "1", "--max_episode_steps", "5", "--processes", "1")


@pytest.fixture
def timed(pendulum: Callable[..., TrainedAgent]) -> TrainedAgent:
    """The agent of `pendulum`, untrained, conditioned on the time to a goal."""
    training = {"goal_relabeling": "hindsight", "steps": 10}
    backbone = {"name": "mingru", "width": 16, "layers": 1}
    config = from_dict({"dataset": "local/pendulum", "backbone": backbone, "training": training})
    spec = agent_spec(torch.zeros(3), torch.ones(3), Box(-2.0, 2.0, (1,)), return_scale=1000.0)
    agent = DecisionAgent(config.agent, config.backbone, spec, config.condition, config.objective)
    return replace(pendulum(), agent=agent.eval(), config=config)


@pytest.fixture
def folder(timed: TrainedAgent, tmp_path: Path) -> Path:
    """The folder of a run with that agent."""
    save_checkpoint(tmp_path / "run", timed, {})
    (tmp_path / "run" / "config.yaml").write_text(yaml.safe_dump(to_dict(timed.config)))
    return tmp_path / "run"


@torch.no_grad()
def test_time_quantile_of_an_evaluation_is_the_limit(timed: TrainedAgent) -> None:
    observation, agent = torch.randn(1, 3), timed.agent
    (token,) = agent.embed(torch.zeros(1, 1), observation, torch.zeros(1, 1), torch.zeros(1, dtype=torch.int64))
    hidden, _ = agent.backbone.step(token, agent.backbone.initial_state(1))
    quantiles = 1000 * agent.condition.quantiles(hidden, torch.zeros(1))[0]
    for level, predicted in zip(TIME_LEVELS, quantiles.tolist(), strict=True):
        actor = EnvironmentActor(timed.with_condition({"time_quantile": level}))
        actor.reset(math.inf)
        actor(observation[0].numpy())
        assert actor.condition_values.item() == pytest.approx(predicted, rel=1e-5)


@torch.no_grad()
def test_guidance_of_an_evaluation_is_that_of_the_agent(timed: TrainedAgent) -> None:
    """Only of an agent that was trained without its condition, too."""
    with pytest.raises(InputError, match=r"condition\.guidance needs condition\.dropout"):
        timed.with_condition({"guidance": 3})
    config = replace(timed.config, condition=replace(timed.config.condition, dropout=0.1))
    spec = agent_spec(torch.zeros(3), torch.ones(3), Box(-2.0, 2.0, (1,)), return_scale=1000.0)
    agent = DecisionAgent(config.agent, config.backbone, spec, config.condition, config.objective).eval()
    agent.adaln.none += torch.randn_like(agent.adaln.none)
    guided = replace(timed, agent=agent, config=config).with_condition({"guidance": 3}).agent
    observation, states = torch.randn(50, 3), [each.initial_state(torch.zeros(50)) for each in (agent, guided)]
    actions = [
        each.act(observation, torch.zeros(50), state)[0] for each, state in zip((agent, guided), states, strict=True)
    ]
    assert not torch.allclose(*actions)
    agent.condition_config = guided.condition_config
    assert torch.equal(agent.act(observation, torch.zeros(50), states[0])[0], actions[1])


def test_results_with_other_conditions_are_stored_apart(
    folder: Path, timed: TrainedAgent, inline_cli: Callable[..., CompletedProcess[str]]
) -> None:
    for options in ([], ["--condition.time_quantile", "0.2"]):
        done = inline_cli("evaluate", "run", *SHORT, *options)
        assert done.returncode == 0, done.stderr
        assert (", time_quantile 0.2, " in done.stdout) == bool(options)
    results = [read_result(path) for path in (folder / "results").iterdir()]
    assert {result.config.condition.time_quantile for result in results} == {0.01, 0.2}
    settings = replace(timed.config.evaluation, episodes=1, max_episode_steps=5)
    for trained in (timed, timed.with_condition({"time_quantile": 0.2})):
        stored = stored_result(folder, trained.config, trained.provenance, 10, settings)
        assert stored is not None
        assert stored.config.condition == trained.config.condition


def test_only_what_acts_may_be_set(
    folder: Path, pendulum: Callable[..., TrainedAgent], inline_cli: Callable[..., CompletedProcess[str]]
) -> None:
    for word, value in (("time_quantile", "0.9"), ("noise", "0.1")):
        done = inline_cli("evaluate", "run", f"--condition.{word}", value, *SHORT)
        assert done.returncode == 2
        assert f"condition.{word}" in done.stderr
    for key in ("rtg_quantile", "time_quantile"):
        with pytest.raises(InputError, match=rf"condition\.{key}"):
            decision_rnn.evaluate(pendulum(), condition={key: 0.1})
    trained = pendulum()
    assert trained.with_condition({}) is trained
    for options, words in (
        ({"dropout": 0.1}, "fixed by"),
        ({"time_quantile": 0.1}, "unknown"),
        ("guidance", "condition: "),
    ):
        with pytest.raises(InputError, match=words):
            decision_rnn.evaluate(trained, condition=options)
    assert not (folder / "results").exists()


def test_exported_policy_has_the_condition_it_was_exported_with(
    folder: Path, inline_cli: Callable[..., CompletedProcess[str]]
) -> None:
    done = inline_cli("export", "run", "--condition.time_quantile", "0.2", "--output", "policy.onnx")
    assert done.returncode == 0, done.stderr
    policy, trained = load_policy(folder.parent / "policy.onnx"), load_agent(folder)
    assert policy.config.condition == replace(trained.config.condition, time_quantile=0.2)
    with pytest.raises(InputError, match="condition"):
        decision_rnn.evaluate(policy, condition={"time_quantile": 0.1})
