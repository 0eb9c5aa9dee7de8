"""The exported ONNX policy acts like its agent: every backbone, both token layouts, objectives and masks."""

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import gymnasium
import numpy as np
import onnx
import pytest
import torch
from guide import example
from gymnasium.envs.registration import EnvSpec
from made_policy import exported, made_agent
from subjects import OTHER_STACK, SMALL

from decision_rnn.agent import (
    ActionChunkConfig,
    AgentConfig,
    AgentSpec,
    FlowMatchingConfig,
    GMMConfig,
    NoConditionConfig,
    Objective,
    ObjectiveConfig,
    register_objective,
)
from decision_rnn.agent.spaces import unit_box
from decision_rnn.backbones import registered, registered_names
from decision_rnn.deploy import Policy
from decision_rnn.deploy import onnx as export
from decision_rnn.deploy.description import describe_spaces
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.evaluation.policies import load_policy
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError

BATCH, STEPS = 4, 400
BOUND = 1e-5

THREE_TOKENS = AgentConfig(tokens="interleaved", previous_action=True)
EVERY = [
    (name, {"width": 16, "layers": 2, **SMALL.get(name, [{}])[0]}, agent)
    for name in registered_names()
    for agent in (AgentConfig(), THREE_TOKENS)
]
OTHERS = [
    (name, {"width": 16, "layers": 2, **options}, agent)
    for name, options, agent in [
        *((name, option, AgentConfig()) for name, small in SMALL.items() for option in small[1:]),
        *((name, OTHER_STACK, THREE_TOKENS) for name in ("mingru", "transformer")),
        ("gru", {}, AgentConfig(timestep_embedding=True, previous_action=True)),
        ("mingru", {"width": 128, "layers": 3}, AgentConfig()),
    ]
]
FAST = [
    ("mingru", {"width": 16, "layers": 2}, AgentConfig()),
    ("rnn", {"width": 8, "layers": 1}, AgentConfig(tokens="interleaved", timestep_embedding=True)),
    ("mlp", {"width": 8, "layers": 1}, None),  # behaviour cloning
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
    [
        *FAST,
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [*EVERY, *OTHERS]),
    ],
    ids=str,
)
def test_exported_onnx_policy_has_the_actions_of_its_agent(
    name: str, options: dict, agent: AgentConfig | None, tmp_path: Path
) -> None:
    condition = NoConditionConfig() if agent is None else None
    trained = made_agent(registered(name).config(**options), agent, condition=condition)
    assert_acts_alike(trained, exported(tmp_path, trained))
    (text,) = (pair.value for pair in onnx.load(tmp_path / "policy.onnx").metadata_props if pair.key == "decision_rnn")
    json.loads(text, parse_constant=pytest.fail)  # others' parsers refuse NaN and infinities


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (torch.full((2, 3), torch.nan), "nan"),
        (torch.tensor([[1.0, torch.nan], [-torch.inf, 2.0]]), [[1.0, "nan"], ["-inf", 2.0]]),
        (torch.tensor(3), 3.0),
    ],
)
def test_initial_values_of_the_state_are_json(value: torch.Tensor, written: object) -> None:
    assert export._initial(value) == written
    read = np.broadcast_to(np.asarray(json.loads(json.dumps(written, allow_nan=False)), np.float64), value.shape)
    np.testing.assert_array_equal(read, value.numpy())


def test_onnx_policy_follows_a_chunk_of_actions(tmp_path: Path) -> None:
    trained = made_agent(registered("mingru").config(width=16, layers=1), objective=ActionChunkConfig(chunk_size=3))
    policy = exported(tmp_path, trained)
    assert_acts_alike(trained, policy)
    assert [state.shape for state in policy.initial_state(2)][-1] == (2, 3, 3)


def test_onnx_policy_takes_the_most_probable_mode_of_a_mixture(tmp_path: Path) -> None:
    trained = made_agent(registered("mingru").config(width=8, layers=1), objective=GMMConfig(num_components=3))
    assert_acts_alike(trained, exported(tmp_path, trained))


def test_onnx_policy_follows_a_flow_from_zero(tmp_path: Path) -> None:
    trained = made_agent(registered("mingru").config(width=8, layers=1), objective=FlowMatchingConfig(flow_steps=4))
    trained.agent.objective.head[-1].weight.data *= 10  # actions at the bounds, too
    assert_acts_alike(trained, exported(tmp_path, trained))


def test_onnx_policy_of_a_masked_agent_takes_full_observations(tmp_path: Path) -> None:
    trained = made_agent(registered("lru").config(width=8, layers=1), mask="velocity")
    policy = exported(tmp_path, trained)
    assert policy.observation_layout.size == 11
    assert policy.metadata["observation_index"] == [0, 1, 2, 3, 4]
    assert_acts_alike(trained, policy)


@pytest.mark.parametrize(
    ("xml", "observations", "actions"),
    [
        (  # a quadrotor with thrust at two sites and a free joint
            """<mujoco><worldbody><body><freejoint/><geom size="1"/><site name="a"/><site name="b"/></body></worldbody>
            <actuator><motor site="a" gear="0 0 1 0 0 0"/><motor site="b" gear="0 0 1 0 0 0"/></actuator></mujoco>""",
            13,
            2,
        ),
        (  # an arm driven by a tendon
            """<mujoco><worldbody><body><joint name="shoulder"/><geom size="1"/><body><joint name="elbow"/>
            <geom size="1"/></body></body></worldbody><tendon><fixed name="t"><joint joint="elbow" coef="1"/></fixed>
            </tendon><actuator><motor tendon="t"/></actuator></mujoco>""",
            4,
            1,
        ),
    ],
)
def test_actions_of_actuators_that_drive_no_joint_have_no_names(
    xml: str, observations: int, actions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mujoco

    class Body(gymnasium.Env):
        def __init__(self) -> None:
            self.model = mujoco.MjModel.from_xml_string(xml)
            self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (observations,))
            self.action_space = gymnasium.spaces.Box(-1, 1, (actions,))

    monkeypatch.setitem(gymnasium.registry, "Body-v0", EnvSpec("Body-v0", entry_point=Body))
    spaces = describe_spaces("Body-v0", observations, unit_box(actions))
    assert spaces["action"]["names"] is None
    assert len(spaces["observation"]["names"]) == observations


def test_environment_whose_model_is_made_by_a_reset_has_no_names_of_joints(monkeypatch: pytest.MonkeyPatch) -> None:
    class Arm(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
        action_space = gymnasium.spaces.Box(-1, 1, (1,))

        @property
        def model(self) -> object:
            raise ValueError("MjModel object not yet initialized. Call `reset` to initialize.")

    monkeypatch.setitem(gymnasium.registry, "Arm-v0", EnvSpec("Arm-v0", entry_point=Arm))
    spaces = describe_spaces("Arm-v0", Arm.observation_space, unit_box(1))
    assert spaces["observation"]["names"] is None
    assert spaces["action"]["names"] is None


def test_onnx_export_of_a_user_backbone_and_objective(registries: None, tmp_path: Path) -> None:
    """Those of the tutorials."""
    layers, objective = ModuleType("layers"), ModuleType("myobjective")
    for module, file in ((layers, "layers.py"), (objective, "myobjective.py")):
        module.__dict__["__name__"] = "__main__"  # dataclasses look their module up
        exec(example(file), module.__dict__)
    trained = made_agent(layers.AverageConfig(width=8, layers=1, decay=0.8), objective=objective.HuberConfig())
    assert_acts_alike(trained, exported(tmp_path, trained))


@pytest.mark.parametrize("fault", ["draws", "branches"])
def test_onnx_export_refuses_an_objective_with_random_draws_or_data_dependent_branches(
    registries: None, fault: str, tmp_path: Path
) -> None:
    from dataclasses import make_dataclass

    config = make_dataclass("FaultyConfig", [("name", str, fault)], bases=(ObjectiveConfig,), frozen=True, kw_only=True)

    @register_objective(config)
    class Faulty(Objective):
        def __init__(self, config: ObjectiveConfig, spec: AgentSpec) -> None:
            super().__init__()
            self.head = torch.nn.Linear(spec.width, 3)

        def loss(self, hidden: torch.Tensor, batch: object) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
            return self.action(hidden).sum(), {}

        def action(self, hidden: torch.Tensor) -> torch.Tensor:
            action = self.head(hidden).tanh()
            if fault == "draws":
                return (action + 0.1 * torch.randn_like(action)).clamp(-1, 1)
            return action if float(action.sum()) > 0 else -action

    with pytest.raises(InputError, match=r"differ by up to|cannot be exported"):
        export_onnx(made_agent(registered("mlp").config(width=8, layers=1), objective=config()), tmp_path / "p.onnx")
    assert not list(tmp_path.iterdir())


def test_exported_policy_acts_greedily_though_its_run_samples(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trained = made_agent(registered("mingru").config(width=8, layers=1), objective=GMMConfig(num_components=3))
    settings = replace(trained.config.evaluation, actions="sampled")
    export_onnx(replace(trained, config=replace(trained.config, evaluation=settings)), tmp_path / "policy.onnx")
    warned = capfd.readouterr().err
    assert "acts greedily, but the run is evaluated otherwise (carried state, sampled actions)" in warned
    assert load_policy(tmp_path / "policy.onnx").config.evaluation.actions == "greedy"


def test_onnx_file_has_input_and_output_names_and_metadata_and_no_local_paths(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a run that is evaluated by a window, which the file does not have: the export warns."""
    trained = made_agent(registered("lstm").config(width=8, layers=1))
    settings = replace(trained.config.evaluation, inference="window", window=7)
    trained = replace(trained, config=replace(trained.config, evaluation=settings))
    export_onnx(trained, tmp_path / "policy.onnx", target_return=1234.0)
    warned = capfd.readouterr().err
    assert "carries its state and acts greedily, but the run is evaluated otherwise (window of 7)" in warned
    model = onnx.load(tmp_path / "policy.onnx")
    onnx.checker.check_model(model, full_check=True)
    labels = ["return_to_go", "previous_action", "timestep", "memory_0", "memory_1"]
    assert [value.name for value in model.graph.input] == [
        *("obs", "reward", "reset", "target_return"),
        *(f"h_in_{label}" for label in labels),
    ]
    assert [value.name for value in model.graph.output] == ["actions", *(f"h_out_{label}" for label in labels)]
    dims = {value.type.tensor_type.shape.dim[0].dim_param for value in (*model.graph.input, *model.graph.output)}
    assert dims == {"batch"}
    policy = Policy.load(tmp_path / "policy.onnx")
    metadata = policy.metadata
    assert policy.default_target == metadata["target_return"]["default"] == 1234.0
    assert metadata["environment_id"] == "Hopper-v5"
    assert metadata["action"] == {
        "size": 3,
        "low": [-1.0] * 3,
        "high": [1.0] * 3,
        "names": ["torque of thigh_joint", "torque of leg_joint", "torque of foot_joint"],
    }
    assert len(metadata["observation"]["names"]) == 11
    assert metadata["observation"]["names"][5] == "velocity of rootx"
    assert metadata["training"]["step"] == 7
    assert metadata["versions"]["torch"] == torch.__version__
    text = (tmp_path / "policy.onnx").read_bytes()
    for trace in (str(Path(__file__).parents[2]).encode(), b"stack_trace", b".py"):
        assert trace not in text, "the file tells of the machine it was made on"


def test_onnx_policy_with_weights_in_8_bits_has_rounded_weights_and_nearly_the_actions_of_its_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = made_agent(registered("mingru").config(width=64, layers=2))
    path = tmp_path / "policy.onnx"
    assert 1e-4 < export_onnx(trained, path, weights="int8") < 0.1
    assert Policy.load(path).metadata["weights"] == "int8"
    graph = onnx.load(path).graph
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    rounded = [node for node in graph.node if node.op_type == "MatMulNBits"]
    assert len(rounded) == 6  # the gates and two layers of the MLP in each block
    assert sum(node.op_type == "Gemm" for node in graph.node) == 3  # of the condition, observations and actions
    for node in rounded:
        name = node.input[1].removesuffix(".int8")
        assert name not in arrays
        scale = arrays[node.input[2]][..., None]
        found = (arrays[node.input[1]].astype(np.float32) - 128) * scale
        exact = trained.agent.get_parameter(name.removeprefix("agent.")).detach().numpy()
        assert (np.abs(found - exact.reshape(found.shape)) <= 0.501 * scale).all()
    monkeypatch.setattr(export, "INT8_TOLERANCE", 1e-4)
    with pytest.raises(InputError, match="differ by up to"):
        export_onnx(trained, tmp_path / "other.onnx", weights="int8")


def test_state_before_a_reset_has_no_effect_on_an_onnx_policy(policy_path: Path) -> None:
    """Also where it is not a number."""
    policy, generator = Policy.load(policy_path), np.random.default_rng(0)
    inputs = generator.normal(size=(2, 11)).astype(np.float32), np.float32([np.nan, np.inf]), np.ones(2, bool)
    target = np.float32([3600, 500])
    actions, after = policy.step(*inputs, target, policy.initial_state(2))
    odd = [np.full_like(part, 7 if part.dtype.kind == "i" else np.nan) for part in after]
    same, also = policy.step(*inputs, target, odd)
    for expected, found in zip([actions, *after], [same, *also], strict=True):
        assert np.isfinite(expected).all()
        np.testing.assert_array_equal(found, expected)
