"""Objectives define the loss and the actions; they are chosen by name, shipped or from a user's plugin."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from guide import example
from torch import Tensor

from decision_rnn import AgentConfig, DecisionAgent, Objective, ObjectiveConfig, load_agent, register_objective
from decision_rnn.agent import objectives, registered_objective, registered_objectives
from decision_rnn.backbones import registered
from decision_rnn.checkpoint import last_checkpoint
from decision_rnn.cli.arguments import parse_run
from decision_rnn.config import to_dict
from decision_rnn.config_parser import from_dict
from decision_rnn.data.dataset import Dataset
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.stream import Batch, StepStream
from decision_rnn.errors import InputError
from decision_rnn.training.loop import train

HUBER = example("myobjective.py")


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo each test's registrations."""
    monkeypatch.setattr(objectives.OBJECTIVES, "entries", dict(objectives.OBJECTIVES.entries))


@pytest.fixture
def huber(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The tutorial's myobjective.py in the working folder."""
    (tmp_path / "myobjective.py").write_text(HUBER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "myobjective"
    sys.modules.pop("myobjective", None)


def make_agent(objective: ObjectiveConfig | None = None) -> DecisionAgent:
    torch.manual_seed(0)
    backbone = registered("mingru").config(width=16, layers=1)
    return DecisionAgent(AgentConfig(), backbone, torch.zeros(11), torch.ones(11), 3, 100.0, objective)


def predictions(agent: DecisionAgent, batch: Batch) -> np.ndarray:
    seen = batch.return_to_go, batch.observation, batch.previous_action, batch.timestep, batch.reset.mask
    return agent.predict(*seen)[0].detach().double().numpy()


def test_mse_objective_is_the_mean_squared_error_of_predicted_actions(store: EpisodeStore) -> None:
    agent, batch = make_agent(), StepStream(store, 8, 4, 0).sample()
    expected = np.mean((predictions(agent, batch) - batch.action.double().numpy()) ** 2)
    assert agent(batch)[0].item() == pytest.approx(expected, rel=1e-6)


def test_custom_objective_needs_its_plugin_named_to_train_and_load(
    store: EpisodeStore, huber: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["hopper-medium", "--backbone.width", "16", "--training.steps", "3", "--training.context", "8"]
    with pytest.raises(InputError, match=r"unknown objective 'huber'; known: mse; .*--plugins"):
        parse_run("test", [*words, "--objective", "huber"])
    words += ["--plugins", huber, "--objective", "huber", "--objective.delta", "0.25"]
    config, _ = parse_run("test", words)
    assert (config.objective.name, config.objective.delta, config.plugins) == ("huber", 0.25, (huber,))
    assert from_dict(json.loads(json.dumps(to_dict(config))), "here") == config
    monkeypatch.setattr(Dataset, "open", lambda dataset: store)
    trained = train(config, tmp_path / "run")

    batch = StepStream(store, 8, 4, 0).sample()
    error = np.abs(predictions(trained.agent, batch) - batch.action.double().numpy())
    expected = np.where(error < 0.25, error**2 / 2, 0.25 * (error - 0.125)).mean()
    assert trained.agent(batch)[0].item() == pytest.approx(expected, rel=1e-6)

    folder = last_checkpoint(tmp_path / "run")
    code = f"from decision_rnn import load_agent; from pathlib import Path; load_agent(Path({str(folder)!r}){{}})"
    done = subprocess.run([sys.executable, "-c", code.format("")], capture_output=True, text=True)
    assert "add --plugins myobjective" in done.stderr
    done = subprocess.run([sys.executable, "-c", code.format(", ['myobjective']")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(predictions(load_agent(folder).agent, batch), predictions(trained.agent, batch))


def test_custom_objective_on_the_command_line(
    small_cli: Callable[..., "subprocess.CompletedProcess[str]"], huber: str, tmp_path: Path
) -> None:
    small = ["--backbone.width", "16", "--evaluation.episodes", "1", "--training.steps", "2", "--output", "run"]
    done = small_cli("train", "hopper-medium", "--plugins", huber, "--objective", "huber", *small)
    assert done.returncode == 0, done.stderr
    assert json.loads(next((tmp_path / "run" / "results").glob("*.json")).read_text())["config"]["objective"] == {
        "name": "huber",
        "delta": 0.5,
    }


@dataclass(frozen=True, kw_only=True)
class ReturnConfig(ObjectiveConfig):
    name: str = "return"


class Return(Objective):
    """Regresses the return-to-go; its action is a constant."""

    columns: ClassVar[tuple[str, ...]] = ("return_to_go", "timestep")

    def __init__(self, config: ReturnConfig, width: int, action_dim: int) -> None:
        super().__init__()
        self.given: Mapping[str, Tensor] = {}
        self.head = torch.nn.Linear(width, action_dim)

    def loss(self, hidden: Tensor, columns: Mapping[str, Tensor]) -> Tensor:
        self.given = columns
        return (self.head(hidden).mean(-1, keepdim=True) - columns["return_to_go"]).square().mean()

    def action(self, hidden: Tensor) -> Tensor:
        return torch.full_like(self.head(hidden), 0.25)


def test_objective_receives_the_columns_it_names_and_defines_the_action(store: EpisodeStore) -> None:
    register_objective(ReturnConfig)(Return)
    agent, batch = make_agent(ReturnConfig()), StepStream(store, 8, 4, 0).sample()
    agent(batch)
    assert list(agent.objective.given) == ["return_to_go", "timestep"]
    assert torch.equal(agent.objective.given["return_to_go"], batch.return_to_go)
    assert (predictions(agent, batch) == 0.25).all()
    action, state = agent.act(torch.zeros(2, 11), torch.zeros(2), None, agent.initial_state(torch.ones(2)))
    assert (action == 0.25).all()
    assert torch.equal(state[2], action)  # the previous action of the next step


def test_objective_with_unknown_column_raises_naming_it() -> None:
    register_objective(ReturnConfig)(type("Greedy", (Return,), {"columns": ("action", "advantage")}))
    with pytest.raises(InputError, match=r"return asks for the columns advantage.*reward, return_to_go"):
        make_agent(ReturnConfig())


def test_register_objective_and_look_it_up_by_name() -> None:
    assert registered_objectives() == ["mse"]
    with pytest.raises(ValueError, match="'mse' is taken"):
        register_objective(objectives.SquaredErrorConfig)(Return)
    with pytest.raises(ValueError, match="ObjectiveConfig must give its field `name` a default"):
        register_objective(ObjectiveConfig)
    register_objective(ReturnConfig)(Return)
    assert registered_objective("return").cls is Return
    with pytest.raises(KeyError, match="known: mse, return"):
        registered_objective("os.path")


def test_run_config_objective_defaults_to_mse_and_rejects_unknown_names(tmp_path: Path) -> None:
    config, _ = parse_run("test", ["hopper-medium"])
    assert config.objective == objectives.SquaredErrorConfig()
    assert parse_run("test", ["hopper-medium", "--objective", "mse"])[0] == config
    assert from_dict({**to_dict(config), "objective": "mse"}, "here") == config
    older = {key: value for key, value in to_dict(config).items() if key != "objective"}
    assert from_dict(older, "here") == config
    with pytest.raises(InputError, match="did you mean mse"):
        parse_run("test", ["hopper-medium", "--objective", "mes"])
    with pytest.raises(InputError, match="delta"):
        parse_run("test", ["hopper-medium", "--objective.delta", "3"])
    assert replace(config, objective=ReturnConfig()) != config
