"""The exported ONNX policy acts like its agent: every backbone, both token layouts, objectives and masks."""

import contextlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import scipy.stats
import torch
from made_policy import exported, made_agent
from subjects import OTHER_STACK, SMALL

from decision_rnn.agent import (
    ActionChunkConfig,
    AgentConfig,
    FlowMatchingConfig,
    GMMConfig,
    NoConditionConfig,
    ObjectiveConfig,
    ReturnToGoConfig,
)
from decision_rnn.backbones import BACKBONES, State, registered
from decision_rnn.deploy import Policy, export_onnx
from decision_rnn.deploy.policies import load_policy
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError

BATCH, STEPS = 4, 400
BOUND = 1e-5

SIZE = {"width": 16, "layers": 2}
THREE_TOKENS = AgentConfig(tokens="interleaved", previous_action=True)
EVERY = [
    (name, {**SIZE, **SMALL.get(name, [{}])[0]}, {"agent": agent})
    for name in BACKBONES.names()
    for agent in (AgentConfig(), THREE_TOKENS)
]
OTHERS = [
    *((name, {**SIZE, **option}, {}) for name, small in SMALL.items() for option in small[1:]),
    *((name, {**SIZE, **OTHER_STACK}, {"agent": THREE_TOKENS}) for name in ("mingru", "transformer")),
    ("gru", SIZE, {"agent": AgentConfig(timestep_embedding=True, previous_action=True)}),
    ("mingru", {"width": 128, "layers": 3}, {}),
]
GUIDED = {"agent": AgentConfig(conditioning="adaln"), "condition": ReturnToGoConfig(dropout=0.1, guidance=2.0)}
FAST = [
    ("mingru", {"width": 8, "layers": 1}, {**GUIDED, "objective": GMMConfig(num_components=3)}),
    ("mlp", {"width": 8, "layers": 1}, {**GUIDED, "objective": FlowMatchingConfig(flow_steps=4)}),
    ("mingru", SIZE, {"objective": ActionChunkConfig(chunk_size=3)}),
    ("rnn", {"width": 8, "layers": 1}, {"agent": AgentConfig(tokens="interleaved", timestep_embedding=True)}),
    ("lru", {"width": 8, "layers": 1}, {"mask": "velocity", "objective": GMMConfig(num_components=3)}),
    # behaviour cloning
    (
        "mlp",
        {"width": 8, "layers": 1},
        {"condition": NoConditionConfig(), "objective": FlowMatchingConfig(flow_steps=4)},
    ),
]


def assert_acts_alike(trained: TrainedAgent, policy: Policy) -> None:
    """With the same observations, rewards and resets, also past the last timestep of the limits; the policy by its
    public API."""
    agent = trained.agent
    generator = np.random.default_rng(1)
    targets = np.array([3600, 1800, -20, 500], np.float32)
    policy.reset(targets)
    state = agent.initial_state(torch.from_numpy(targets))
    with torch.inference_mode():
        for t in range(STEPS):
            observations = generator.normal(0, 1.5, (BATCH, 11)).astype(np.float32)
            rewards = generator.normal(2, 1, BATCH).astype(np.float32)
            reset = (generator.random(BATCH) < 0.005) & (t > 0)
            if t:
                policy.reset(done=reset)
            actions = policy.act(observations, rewards)
            state = state.reset(agent.initial_state(torch.from_numpy(targets)), torch.from_numpy(reset))
            expected, state, _ = agent.act(torch.from_numpy(observations), torch.from_numpy(rewards), state)
            assert np.abs(actions - expected.numpy()).max() <= BOUND, t


@pytest.mark.parametrize(
    ("name", "options", "agent"),
    [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in [*EVERY, *OTHERS])],
    ids=str,
)
def test_exported_policy_has_the_actions_of_its_agent(
    name: str, options: dict[str, Any], agent: dict[str, Any], tmp_path: Path
) -> None:
    trained = made_agent(registered(name).config(**options), **agent)
    if isinstance(agent.get("objective"), FlowMatchingConfig):
        # Actions at the bounds, too; guidance enlarges them, and rounding with them.
        trained.agent.objective.head[-1].weight.data *= 10 / trained.config.condition.guidance
    assert_acts_alike(trained, exported(tmp_path, trained))
    (text,) = (pair.value for pair in onnx.load(tmp_path / "policy.onnx").metadata_props if pair.key == "decision_rnn")
    json.loads(text, parse_constant=pytest.fail)  # others' parsers refuse NaN and infinities


@pytest.mark.parametrize(
    ("objective", "share", "value", "accepted"),
    [
        (GMMConfig(num_components=3), 0.005, 0.5, True),
        (GMMConfig(num_components=3), 0.05, 0.5, False),
        (GMMConfig(num_components=3), 0.005, np.nan, False),
        (FlowMatchingConfig(flow_steps=4), 0.005, 0.5, False),
    ],
)
def test_few_other_modes_are_ties(
    objective: ObjectiveConfig,
    share: float,
    value: float,
    accepted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not of flow matching, which has no modes to choose from."""
    trained = made_agent(registered("mlp").config(width=8, layers=1), objective=objective)
    generator, step = np.random.default_rng(0), Policy.step

    def other(self: Policy, *inputs: Any) -> tuple[np.ndarray, list[np.ndarray]]:
        actions, state = step(self, *inputs)
        actions[generator.random(len(actions)) < share] += value
        return actions, state

    monkeypatch.setattr(Policy, "step", other)
    with contextlib.nullcontext() if accepted else pytest.raises(InputError, match="differ by"):
        export_onnx(trained, tmp_path / "p.onnx")


@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("objective", [GMMConfig(num_components=3), FlowMatchingConfig(flow_steps=4)])
def test_file_samples_actions_as_its_agent(objective: ObjectiveConfig, guided: bool, tmp_path: Path) -> None:
    options = GUIDED if guided else {}
    trained = made_agent(registered("mlp").config(width=8, layers=1), objective=objective, **options)
    export_onnx(trained, tmp_path / "policy.onnx", actions="sampled")
    policy, number = Policy.load(tmp_path / "policy.onnx"), 4000
    observations, rewards = np.zeros((number, 11), np.float32), np.zeros(number, np.float32)
    inputs = observations, rewards, np.ones(number, bool), np.full(number, 3600, np.float32)
    drawn = [policy.step(*inputs, policy.initial_state(number))[0] for _ in range(2)]
    torch.manual_seed(0)
    with torch.inference_mode():
        state = trained.agent.initial_state(torch.full((number,), 3600.0))
        actions, *_ = trained.agent.act(torch.from_numpy(observations), torch.from_numpy(rewards), state, sample=True)
    ours, theirs = np.concatenate(drawn).round(3), actions.numpy().round(3)  # modes are equal up to rounding
    for entry in range(3):
        assert np.std(ours[:, entry]) > 0
        assert scipy.stats.ks_2samp(ours[:, entry], theirs[:, entry]).pvalue > 1e-3
    assert not np.array_equal(*drawn)
    again = Policy.load(tmp_path / "policy.onnx")
    np.testing.assert_array_equal(again.step(*inputs, again.initial_state(number))[0], drawn[0])
    assert load_policy(tmp_path / "policy.onnx").config.evaluation.actions == "sampled"


def test_counter_of_an_objective_is_not_taken_for_the_timestep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zero after a reset, as the timestep is, and again within an episode."""

    def step(self: Any, hidden: torch.Tensor, timestep: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        (count,) = state
        action = self.action(hidden)
        return torch.where((count == 0)[:, None], action, -action), ((count + 1) % 3,)

    trained = made_agent(registered("mlp").config(width=8, layers=1))
    objective = type(trained.agent.objective)
    monkeypatch.setattr(objective, "initial_state", lambda self, size: (torch.zeros(size, dtype=torch.int64),))
    monkeypatch.setattr(objective, "step", step)
    assert_acts_alike(trained, exported(tmp_path, trained))


@pytest.mark.parametrize("fault", ["draws", "branches"])
def test_export_refuses_random_draws_and_branches_on_data(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = made_agent(registered("mlp").config(width=8, layers=1))
    objective = type(trained.agent.objective)
    action = objective.action

    def faulty(self: Any, hidden: torch.Tensor) -> torch.Tensor:
        actions = action(self, hidden)
        if fault == "draws":
            return (actions + 0.1 * torch.randn_like(actions)).clamp(-1, 1)
        return actions if float(actions.sum()) > 0 else -actions

    monkeypatch.setattr(objective, "action", faulty)
    with pytest.raises(InputError, match="differ by" if fault == "draws" else "cannot be exported"):
        export_onnx(trained, tmp_path / "p.onnx")
    assert not list(tmp_path.iterdir())


def test_file_has_names_and_metadata_and_no_local_paths(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of a run that is evaluated by a window, which the file does not have: the export warns."""
    trained = made_agent(registered("lstm").config(width=8, layers=1), objective=GMMConfig(num_components=3))
    settings = replace(trained.config.evaluation, inference="window", window=7)
    places = {"path": str(tmp_path / "hopper.hdf5"), "init_from": str(tmp_path / "first")}
    trained = replace(trained, config=replace(trained.config, evaluation=settings, **places))
    path = tmp_path / "policy.onnx"
    export_onnx(trained, path, target_return=1234.0)
    warned = capfd.readouterr().err
    assert warned.startswith("policy.onnx ")
    assert "(window of 7)" in warned
    settings = load_policy(path).config.evaluation
    assert (settings.inference, settings.actions) == ("recurrent", "greedy")
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    labels = ["return_to_go", "timestep", "memory_0", "memory_1"]
    assert [value.name for value in model.graph.input] == [
        *("obs", "reward", "reset", "target_return"),
        *(f"h_in_{label}" for label in labels),
    ]
    assert [value.name for value in model.graph.output] == ["actions", *(f"h_out_{label}" for label in labels)]
    dims = {value.type.tensor_type.shape.dim[0].dim_param for value in (*model.graph.input, *model.graph.output)}
    assert dims == {"batch"}
    policy = Policy.load(path)
    metadata = policy.metadata
    assert policy.default_target == metadata["target_return"]["default"] == 1234.0
    assert metadata["environment_id"] == "Hopper-v5"
    np.testing.assert_allclose(metadata["observation"].pop("mean"), np.linspace(-1, 1, 11), atol=1e-6)
    np.testing.assert_allclose(metadata["observation"].pop("std"), np.linspace(0.5, 2, 11), atol=1e-6)
    assert metadata["observation"] == {"size": 11, "names": []}
    assert metadata["action"] == {"size": 3, "names": [], "low": [-1.0] * 3, "high": [1.0] * 3}
    assert metadata["training"]["step"] == 7
    assert metadata["versions"]["torch"] == torch.__version__
    for trace in (str(Path(__file__).parents[2]).encode(), str(tmp_path).encode(), b"stack_trace", b".py"):
        assert trace not in path.read_bytes(), "the file tells of the machine it was made on"


def test_step_has_few_operations(policy_path: Path) -> None:
    """Of two layers: a product for the inputs and one for the actions; in each layer one for every gate and two of the
    MLP, the second with the residual. The observation's scale and the condition's are in the weights."""
    counts = Counter(node.op_type for node in onnx.load(policy_path).graph.node)
    assert counts["Gemm"] == 2 + 2 * 4
    assert counts.keys().isdisjoint({"Div", "Split", "Equal", "Identity"})
    assert counts["Where"] == 3 + 2  # the return-to-go twice, the timestep, and a state of each layer
    assert counts.total() <= 65 - 15  # those of the default agent, which has a third layer


def test_state_before_a_reset_has_no_effect(policy_path: Path) -> None:
    """Also where it is not a number."""
    policy, generator = Policy.load(policy_path), np.random.default_rng(0)
    inputs = generator.normal(size=(2, 11)).astype(np.float32), np.float32([np.nan, np.inf]), np.ones(2, bool)
    target = np.float32([3600, 500])
    actions, after = policy.step(*inputs, target, policy.initial_state(2))
    odd = [np.full_like(part, 7 if part.dtype.kind == "i" else np.nan) for part in after]
    same, also = policy.step(*inputs, target, odd)
    for expected, value in zip([actions, *after], [same, *also], strict=True):
        assert np.isfinite(expected).all()
        np.testing.assert_array_equal(value, expected)
