"""Fixtures of the packaging tests: a run and a local hub, isolated from the user's own files."""

import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import create_autospec

import pytest
import yaml

from decision_rnn.config import EvaluationConfig, to_dict
from decision_rnn.deploy import package as packaging
from decision_rnn.evaluation.evaluate import score
from decision_rnn.evaluation.results import write_result
from decision_rnn.runs.checkpoint import TrainedAgent, save_checkpoint
from decision_rnn.utils.errors import InputError


@pytest.fixture
def run(tmp_path: Path, pendulum: Callable[..., TrainedAgent]) -> Path:
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
    for name in ("export_onnx", "film"):
        refuse = create_autospec(getattr(packaging, name), side_effect=InputError("it is not tested here"))
        monkeypatch.setattr(packaging, name, refuse)


class Hub:
    """In place of the functions of huggingface_hub, with their signatures and its own filter of names.

    `repositories` are its folders, {"org/name": folder}, with the revisions main and v1; `private` what was created.
    """

    def __init__(self, cache: Path) -> None:
        self.cache, self.private = cache, list[bool]()
        self.repositories: dict[str, Path] = {}

    def snapshot_download(self, repo_id: str, revision: str | None, allow_patterns: list[str]) -> str:
        if repo_id not in self.repositories or revision not in (None, "main", "v1"):
            raise OSError(f"404\nthere is no {repo_id}@{revision}")
        (self.cache / repo_id).mkdir(parents=True)
        self._copy(self.repositories[repo_id], self.cache / repo_id, allow_patterns)
        return str(self.cache / repo_id)

    def create_repo(self, repo_id: str, private: bool, exist_ok: bool) -> None:
        self.private.append(private)

    def upload_folder(
        self,
        repo_id: str,
        folder_path: str,
        allow_patterns: list[str],
        delete_patterns: list[str],
        commit_message: str,
    ) -> str:
        for name in self._names(self.repositories[repo_id], delete_patterns):
            (self.repositories[repo_id] / name).unlink()
        self._copy(Path(folder_path), self.repositories[repo_id], allow_patterns)
        return f"https://huggingface.co/{repo_id}/commit/1"

    def _names(self, folder: Path, patterns: list[str]) -> list[str]:
        from huggingface_hub.utils import filter_repo_objects

        names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
        return list(filter_repo_objects(names, allow_patterns=patterns))

    def _copy(self, source: Path, target: Path, patterns: list[str]) -> None:
        for name in self._names(source, patterns):
            (target / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, target / name)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    library, hub = pytest.importorskip("huggingface_hub"), Hub(tmp_path / "hub-cache")
    for name in ("snapshot_download", "create_repo", "upload_folder"):
        monkeypatch.setattr(library, name, create_autospec(getattr(library, name), side_effect=getattr(hub, name)))
    return hub
