"""Checkpoints: saving and loading, damaged files, and checkpoints that name plugins."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from run_config import parse_run

from decision_rnn.agent import AgentSpec, DecisionAgent, MSEConfig, register_objective
from decision_rnn.agent.objectives.mse import MSE
from decision_rnn.backbones import BackboneConfig, register_backbone
from decision_rnn.backbones.mlp import MLP
from decision_rnn.data.limits import return_to_go_limits
from decision_rnn.data.spec import spec_of_store
from decision_rnn.data.store import EpisodeStore
from decision_rnn.runs.checkpoint import (
    TrainedAgent,
    changes_since,
    load_agent,
    load_training_state,
    save_checkpoint,
    write_agent,
)
from decision_rnn.runs.folder import last_checkpoint
from decision_rnn.training.prepare import prepare
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.plugins import import_plugins


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text("")
    return tmp_path


def make(store: EpisodeStore, *steps: int, run: Path, backbone: str = "mingru") -> DecisionAgent:
    """Train a small agent and save it after each of these steps."""
    small = ["--backbone", backbone, "--backbone.width", "16", "--agent.tokens", "interleaved"]
    config, _ = parse_run("test", ["hopper-medium", *small])
    agent, trainer, stream = prepare(config, store, 500.0)
    provenance = spec_of_store("standin/hopper-medium", store)
    for step in steps:
        while trainer.steps < step:
            trainer.step(stream.sample())
        save_checkpoint(run, TrainedAgent(agent, config, provenance, step, 2.5), trainer.state_dict())
    return agent


def test_load_agent_restores_weights_config_and_provenance(store: EpisodeStore, run: Path) -> None:
    agent = make(store, 3, run=run)
    loaded = load_agent(last_checkpoint(run))
    assert (loaded.step, loaded.seconds) == (3, 2.5)
    assert loaded.provenance.return_mean == pytest.approx(store.episode_returns.mean())
    assert loaded.config.agent.tokens == "interleaved"
    saved, back = agent.state_dict(), loaded.agent.state_dict()
    assert saved.keys() == back.keys()
    assert all(torch.equal(saved[name], back[name]) for name in saved)
    assert loaded.agent.condition.scale == 500
    assert (
        loaded.agent.condition.acting_limit.tolist() == return_to_go_limits(store, 0.8)[0].astype(np.float32).tolist()
    )
    assert torch.allclose(loaded.agent.encoder.mean, torch.from_numpy(store.observation_mean).float())


@dataclass(frozen=True, kw_only=True)
class ScaledConfig(MSEConfig):
    name: str = "scaled"


class Scaled(MSE):
    """Keeps what its spec says, apart from the weights."""

    def __init__(self, config: ScaledConfig, spec: AgentSpec) -> None:
        super().__init__(spec)
        self.spec = spec


@pytest.mark.parametrize("condition", ["return_to_go", "none"])
def test_objective_of_a_loaded_agent_has_the_spec_of_its_training(
    condition: str, registries: None, store: EpisodeStore, run: Path
) -> None:
    register_objective(ScaledConfig)(Scaled)
    data = replace(spec_of_store("standin/hopper-medium", store), return_scale=500.0)
    config, _ = parse_run("test", ["hopper-medium", "--objective", "scaled", "--condition", condition])
    config = replace(config, agent=replace(config.agent, delta_actions=True))
    agent, trainer, _ = prepare(config, store, data.return_scale)
    save_checkpoint(run, TrainedAgent(agent, config, data, 1, 2.5), trainer.state_dict())
    made, loaded = agent.objective.spec, load_agent(run).agent.objective.spec
    assert loaded.return_scale == 500
    for name in ("observation_mean", "observation_std", "action_changes", "rtg_limit"):
        expected = getattr(made, name)
        assert expected is None or torch.allclose(getattr(loaded, name), expected.float())


@dataclass(frozen=True, kw_only=True)
class TiedConfig(BackboneConfig):
    name: str = "tied"


class Tied(MLP):
    """Its two layers share one weight matrix."""

    def __init__(self, config: TiedConfig) -> None:
        super().__init__(config)
        self.output.weight = self.hidden.weight


def test_tied_weights_stay_tied_also_in_half_precision(registries: None, store: EpisodeStore, run: Path) -> None:
    register_backbone(TiedConfig)(Tied)
    agent = make(store, 2, run=run, backbone="tied")
    loaded = load_agent(last_checkpoint(run))
    saved, back = agent.state_dict(), loaded.agent.state_dict()
    assert all(torch.equal(saved[name], back[name]) for name in saved)
    mixer = next(module for module in loaded.agent.modules() if isinstance(module, Tied))
    assert mixer.output.weight is mixer.hidden.weight
    (run / "half").mkdir()
    write_agent(run / "half", loaded, half=True)
    halved = load_agent(run / "half").agent.state_dict()
    for name, _ in agent.named_parameters(remove_duplicate=False):
        assert torch.equal(halved[name], saved[name].half().float()), name


def test_two_newest_checkpoints_are_kept(store: EpisodeStore, run: Path) -> None:
    make(store, 1, 2, 10, run=run)
    folder = run / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["10", "2"]
    assert last_checkpoint(run) == folder / "10"


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("weights.safetensors", lambda content: content[: len(content) // 2]),
        ("weights.safetensors", lambda content: content[:-1] + bytes([content[-1] ^ 1])),
        ("training_state.pt", lambda content: b""),
        ("training_state.pt", lambda content: content[: len(content) // 2]),
        ("config.json", lambda content: content[: len(content) // 2]),
        ("config.json", None),
    ],
    ids=["half", "a bit flipped", "empty", "half", "half", "missing"],
)
def test_damaged_file_is_named_with_the_step_to_resume_from(
    store: EpisodeStore, run: Path, name: str, damage: Callable[[bytes], bytes] | None
) -> None:
    make(store, 1, 2, run=run)
    path = run / "checkpoints" / "2" / name
    path.unlink() if damage is None else path.write_bytes(damage(path.read_bytes()))
    load = load_training_state if name == "training_state.pt" else load_agent
    with pytest.raises(InputError, match=f"{name} cannot be read.*to go on from the checkpoint before"):
        load(last_checkpoint(run))


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ('"context"', '"contxt"', "contxt"),
        ('"return_max": ', '"return_max": "high", "maximum": ', "return_max"),
        ('"fingerprint"', '"print"', "fingerprint"),
    ],
)
def test_description_with_another_key_or_type_is_named(
    store: EpisodeStore, run: Path, old: str, new: str, name: str
) -> None:
    make(store, 1, run=run)
    path = last_checkpoint(run) / "config.json"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=rf"config\.json.*{name}"):
        load_agent(path.parent)


def test_error_of_a_plugin_or_of_memory_blames_no_file(
    registries: None, store: EpisodeStore, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which advises to delete it."""
    register_backbone(TiedConfig)(Tied)
    make(store, 1, run=run, backbone="tied")

    def fail(self: Tied, config: TiedConfig) -> None:
        raise TypeError("a fault of the plugin")

    with monkeypatch.context() as patch, pytest.raises(TypeError, match="a fault of the plugin"):
        patch.setattr(Tied, "__init__", fail)
        load_agent(run)
    with pytest.raises(MemoryError):
        monkeypatch.setattr("safetensors.torch.load", Mock(side_effect=MemoryError))
        load_agent(run)


def test_weights_of_another_shape_name_the_file(store: EpisodeStore, run: Path) -> None:
    make(store, 1, run=run)
    describe(last_checkpoint(run), backbone={"name": "mingru", "width": 8})
    with pytest.raises(InputError, match=r"weights\.safetensors"):
        load_agent(run)


def test_folder_without_run_or_checkpoint_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run folder"):
        last_checkpoint(tmp_path)
    (tmp_path / "config.yaml").write_text("")
    with pytest.raises(InputError, match="no checkpoint yet"):
        last_checkpoint(tmp_path)
    other = tmp_path / "runs" / "mingru-seed0"
    other.mkdir(parents=True)
    (other / "config.yaml").write_text("")
    with pytest.raises(InputError, match="no checkpoint yet"):
        last_checkpoint(tmp_path)
    (tmp_path / "config.yaml").write_text("datasets: [hopper-medium]")
    with pytest.raises(InputError, match=f"comparison.*{other}"):
        last_checkpoint(tmp_path)


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module hostile.py in the working folder that creates a file when it is imported."""
    folder = tmp_path / "working"
    folder.mkdir()
    (folder / "hostile.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    yield folder / "imported"
    sys.modules.pop("hostile", None)


def describe(folder: Path, **keys: object) -> None:
    """Change keys of a checkpoint's configuration."""
    path = folder / "config.json"
    description = json.loads(path.read_text())
    description["config"].update(keys)
    path.write_text(json.dumps(description))


def test_plugin_of_a_checkpoint_is_imported_only_if_named(store: EpisodeStore, run: Path, hostile: Path) -> None:
    make(store, 1, run=run)
    folder = last_checkpoint(run)
    describe(folder, plugins=["hostile"])
    with pytest.raises(InputError, match=r"config\.json.*--plugins hostile"):
        load_agent(folder)
    assert not hostile.exists()
    assert load_agent(folder, plugins=["hostile"]).config.plugins == ("hostile",)
    assert hostile.exists()


def test_changed_plugin_and_dataset_are_noticed(
    store: EpisodeStore, run: Path, hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_plugins(["hostile"])
    make(store, 1, run=run)
    trained = load_agent(last_checkpoint(run))
    config, data = replace(trained.config, plugins=("hostile",)), trained.provenance
    folder = save_checkpoint(run, replace(trained, config=config, step=2), {})
    load_agent(folder)
    assert changes_since(run, data) == []
    assert capsys.readouterr().err == ""
    Path("hostile.py").write_text("A = 1")
    assert changes_since(run, replace(data, fingerprint="0")) == [data.name, "hostile"]
    load_agent(folder)
    assert "hostile" in capsys.readouterr().err
    Path("hostile.py").unlink()  # the run goes on, without a hash
    assert load_agent(save_checkpoint(run, replace(trained, config=config, step=3), {})).step == 3


@pytest.mark.parametrize("keys", [{"objective": {"name": "hostile.Loss"}}, {"plugins": 5}, {"plugins": "hostile"}])
def test_unknown_objective_or_malformed_plugins_import_nothing(
    store: EpisodeStore, run: Path, hostile: Path, keys: dict[str, object]
) -> None:
    make(store, 1, run=run)
    describe(last_checkpoint(run), **keys)
    with pytest.raises(InputError):
        load_agent(last_checkpoint(run))
    assert not hostile.exists()
