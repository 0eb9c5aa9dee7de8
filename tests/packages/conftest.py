"""Fixtures of the packaging tests: a run and a local hub, isolated from the user's own files."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from hub_server import HubServer

from decision_rnn.config import EvaluationConfig, to_dict
from decision_rnn.deploy import package as packaging
from decision_rnn.evaluation.evaluate import score
from decision_rnn.evaluation.results import write_result
from decision_rnn.training.checkpoint import TrainedAgent, save_checkpoint
from decision_rnn.utils.errors import InputError

Pendulum = Callable[..., TrainedAgent]


@pytest.fixture
def run(tmp_path: Path, pendulum: Pendulum) -> Path:
    """A run folder with two checkpoints, of which the second is evaluated."""
    folder = tmp_path / "run"
    trained = pendulum()
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(to_dict(trained.config)))
    for step in (5, 10):
        saved = TrainedAgent(trained.agent, trained.config, trained.provenance, step, 1.25)
        save_checkpoint(folder, saved, {"secret": [1, 2, 3]})
    write_result(folder, score(saved, EvaluationConfig(episodes=2), processes=1))
    return folder


@pytest.fixture
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages without ONNX policy and video, which take long and are not under test."""

    def refuse(*arguments: object, **options: object) -> None:
        raise InputError("it is not tested here")

    monkeypatch.setattr(packaging, "export_onnx", refuse)
    monkeypatch.setattr(packaging, "film", refuse)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A local Hugging Face Hub, with an empty cache."""
    constants: ModuleType = pytest.importorskip("huggingface_hub.constants")
    with HubServer() as server:
        for name, value in {
            "ENDPOINT": server.address,
            "HUGGINGFACE_CO_URL_TEMPLATE": server.address + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_CACHE": str(tmp_path / "hub-cache"),
            "HF_HUB_DISABLE_XET": True,
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": True,
        }.items():
            monkeypatch.setattr(constants, name, value)
        monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", server.address)  # of pushes, set on import
        yield server
