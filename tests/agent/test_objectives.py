"""Objectives define the loss and the actions; they are chosen by name, shipped or from a user's plugin."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agent_specs import agent_spec
from guide import example
from run_config import parse_run
from torch import Tensor

from decision_rnn import AgentConfig, DecisionAgent, Objective, ObjectiveConfig, load_agent, register_objective
from decision_rnn.agent import OBJECTIVES, AgentSpec, MSEConfig
from decision_rnn.agent.objectives.base import Metrics
from decision_rnn.backbones import registered
from decision_rnn.config import from_dict, to_dict
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import Batch, StepStream
from decision_rnn.runs.folder import last_checkpoint, read_metrics
from decision_rnn.training.train import train
from decision_rnn.utils.errors import InputError

pytestmark = pytest.mark.usefixtures("registries")

HUBER = example("myobjective.py")
SHORT = [
    *("--backbone.width", "16", "--backbone.layers", "1", "--training.steps", "4", "--training.context", "8"),
    *("--training.log_every", "2", "--training.precision", "fp32"),
]


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
    spec = agent_spec(torch.zeros(11), torch.ones(11), 3, return_scale=100.0)
    return DecisionAgent(AgentConfig(), backbone, spec, objective=objective)


def predictions(agent: DecisionAgent, batch: Batch) -> np.ndarray:
    asked = agent.condition.from_batch(batch)
    actions, *_ = agent.predict(asked, batch.observation, batch.previous_action, batch.timestep, batch.reset)
    return actions.detach().double().numpy()


def test_mse_is_the_mean_squared_error_of_predicted_actions(store: EpisodeStore) -> None:
    agent, batch = make_agent(), StepStream(store, 8, 4, 0).sample()
    expected = np.mean((predictions(agent, batch) - batch.action.double().numpy()) ** 2)
    assert agent(batch).loss.item() == pytest.approx(expected, rel=1e-6)


def test_custom_objective_needs_its_plugin_named(
    small_store: EpisodeStore, huber: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["hopper-medium", "--backbone.width", "16", "--training.steps", "3", "--training.context", "8"]
    with pytest.raises(InputError, match="huber"):
        parse_run("test", [*words, "--objective", "huber"])
    words += ["--plugins", huber, "--objective", "huber", "--objective.delta", "0.25"]
    config, _ = parse_run("test", words)
    assert (config.objective.name, config.objective.delta, config.plugins) == ("huber", 0.25, (huber,))
    assert from_dict(json.loads(json.dumps(to_dict(config))), "here") == config
    trained = train(config, output=tmp_path / "run").agent

    batch = StepStream(small_store, 8, 4, 0).sample()
    error = np.abs(predictions(trained.agent, batch) - batch.action.double().numpy())
    expected = np.where(error < 0.25, error**2 / 2, 0.25 * (error - 0.125)).mean()
    assert trained.agent(batch).loss.item() == pytest.approx(expected, rel=1e-6)

    folder = last_checkpoint(tmp_path / "run")
    module = sys.modules.pop(huber)
    OBJECTIVES.pop("huber")
    with pytest.raises(InputError, match="--plugins myobjective"):
        load_agent(folder)
    agent = load_agent(folder, [huber]).agent
    assert sys.modules[huber] is not module
    assert np.array_equal(predictions(agent, batch), predictions(trained.agent, batch))


@dataclass(frozen=True, kw_only=True)
class ReturnConfig(ObjectiveConfig):
    name: str = "return"


class Return(Objective):
    """Regresses the return-to-go; its action is a constant."""

    def __init__(self, config: ReturnConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.scale = spec.return_scale
        self.head = torch.nn.Linear(spec.width, spec.action_space.shape[0])

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        error = self.head(hidden).mean(-1, keepdim=True) - batch.return_to_go / self.scale
        return error.square().mean(), {"largest_error": error.abs().max()}

    def action(self, hidden: Tensor) -> Tensor:
        return torch.full_like(self.head(hidden), 0.25)


def test_objective_reads_any_column_and_its_metrics_are_logged(small_store: EpisodeStore, tmp_path: Path) -> None:
    register_objective(ReturnConfig)(Return)
    agent, batch = make_agent(ReturnConfig()), StepStream(small_store, 8, 4, 0).sample()
    assert (predictions(agent, batch) == 0.25).all()
    action, state, _ = agent.act(torch.zeros(2, 11), torch.zeros(2), agent.initial_state(torch.ones(2)))
    assert (action == 0.25).all()
    assert torch.equal(state.previous_action, action)

    config, _ = parse_run("test", ["hopper-medium", "--objective", "return", *SHORT])
    train(config, output=tmp_path / "run")
    lines = read_metrics(tmp_path / "run")
    assert [line["step"] for line in lines] == [2, 4]
    assert all(line["largest_error"] ** 2 >= line["loss"] > 0 for line in lines)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"loss": lambda self, hidden, batch: (hidden.mean(dim=2), {})}, "loss"),
        ({"loss": lambda self, hidden, batch: (hidden.detach().mean(), {})}, "loss"),
        ({"loss": lambda self, hidden, batch: (hidden.mean() * torch.inf, {})}, "loss"),
        ({"loss": lambda self, hidden, batch: (hidden.mean(), {"all": hidden})}, "metric all"),
        ({"action": lambda self, hidden: hidden[..., :2]}, "shape"),
        ({"action": lambda self, hidden: 3 + hidden[..., :3]}, r"\[-1, 1\]"),
    ],
)
def test_objective_that_breaks_a_rule_is_refused_before_training(
    changes: dict[str, Any], rule: str, small_store: EpisodeStore, tmp_path: Path
) -> None:
    register_objective(ReturnConfig)(type("Wrong", (Return,), changes))
    config, _ = parse_run("test", ["hopper-medium", "--objective", "return", *SHORT])
    with pytest.raises(InputError, match=f"objective return .*{rule}"):
        train(config, output=tmp_path / "run")


def test_register_objective_and_look_it_up_by_name() -> None:
    with pytest.raises(ValueError, match="'mse'"):
        register_objective(MSEConfig)(Return)
    with pytest.raises(ValueError, match=r"ObjectiveConfig\.name"):
        register_objective(ObjectiveConfig)
    register_objective(ReturnConfig)(Return)
    assert OBJECTIVES.registered("return").cls is Return
    with pytest.raises(InputError, match="action_chunk, flow_matching, gmm, mse, return"):
        OBJECTIVES.registered("os.path")
