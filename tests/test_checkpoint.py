"""Checkpoints come back as they were, or not at all."""

from pathlib import Path

import pytest
import torch

from decision_rnn.checkpoint import (
    Provenance,
    TrainedAgent,
    last_checkpoint,
    load_agent,
    load_training_state,
    save_checkpoint,
)
from decision_rnn.cli.arguments import parse_run
from decision_rnn.data.spec import BODIES
from decision_rnn.data.store.episodes import EpisodeStore
from decision_rnn.errors import InputError
from decision_rnn.training.trainer import Trainer


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text("")
    return tmp_path


def make(store: EpisodeStore, *steps: int, run: Path) -> Trainer:
    """A trainer, saved after each of those steps."""
    config, _ = parse_run("test", ["hopper-medium", "--backbone.width", "16", "--agent.tokens", "interleaved"])
    trainer = Trainer(config, store, 500.0)
    spec = BODIES["hopper"].spec("standin/hopper-medium", "Hopper-v5", "compare with nothing")
    provenance = Provenance(spec, store.fingerprint, 1.5, 0.5)
    for step in steps:
        while trainer.step < step:
            trainer.train_step()
        save_checkpoint(run, TrainedAgent(trainer.agent, config, provenance, step, 2.5), trainer.state_dict())
    return trainer


def test_an_agent_comes_back_whole(store: EpisodeStore, run: Path) -> None:
    trainer = make(store, 3, run=run)
    loaded = load_agent(last_checkpoint(run))
    assert (loaded.step, loaded.seconds, loaded.provenance.return_mean) == (3, 2.5, 1.5)
    assert loaded.config.agent.tokens == "interleaved"
    saved, back = trainer.agent.state_dict(), loaded.agent.state_dict()
    assert saved.keys() == back.keys()
    assert all(torch.equal(saved[name], back[name]) for name in saved)
    assert loaded.agent.return_scale == 500
    assert torch.allclose(loaded.agent.observation_mean, torch.from_numpy(store.observation_mean).float())


def test_last_points_at_the_newest_and_two_are_kept(store: EpisodeStore, run: Path) -> None:
    make(store, 1, 2, 10, run=run)
    folder = run / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["10", "2", "last"]
    assert (folder / "last").resolve() == last_checkpoint(run).resolve() == (folder / "10").resolve()


@pytest.mark.parametrize("name", ["weights.safetensors", "training_state.pt", "config.json"])
@pytest.mark.parametrize("damage", ["truncated", "empty", "missing"])
def test_a_damaged_file_is_named_with_the_way_out(store: EpisodeStore, run: Path, name: str, damage: str) -> None:
    make(store, 1, 2, run=run)
    path = run / "checkpoints" / "2" / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[: len(content) // 2 if damage == "truncated" else 0])
    load = load_training_state if name == "training_state.pt" else load_agent
    with pytest.raises(InputError, match=f"{name} is missing or damaged.*to go on from step 1"):
        load(last_checkpoint(run))


def test_a_key_that_this_version_does_not_know_is_named(store: EpisodeStore, run: Path) -> None:
    make(store, 1, run=run)
    path = run / "checkpoints" / "1" / "config.json"
    path.write_text(path.read_text().replace('"context"', '"contxt"'))
    with pytest.raises(InputError, match=r"config\.json.*contxt"):
        load_agent(path.parent)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run folder"):
        last_checkpoint(tmp_path)
    (tmp_path / "config.yaml").write_text("")
    with pytest.raises(InputError, match="no checkpoint yet"):
        last_checkpoint(tmp_path)
