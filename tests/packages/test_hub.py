"""Agents by name: search order, downloads from the hub, pushes, and errors."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from decision_rnn.deploy.package import package
from decision_rnn.runs.checkpoint import load_agent
from decision_rnn.runs.folder import last_checkpoint
from decision_rnn.runs.hub import SHIPPED, find_agent, push_to_hub
from decision_rnn.utils.errors import InputError

pytestmark = pytest.mark.usefixtures("without_extras")


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "working").mkdir()
    monkeypatch.chdir(tmp_path / "working")


@pytest.fixture
def packaged(run: Path, tmp_path: Path) -> Path:
    return package(run, tmp_path / "packaged")[0]


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file in a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_agents_in_folders_and_those_that_ship(run: Path, packaged: Path) -> None:
    assert find_agent(run) == last_checkpoint(run) == run / "checkpoints" / "10"
    assert find_agent(str(run / "checkpoints" / "5")) == run / "checkpoints" / "5"
    assert load_agent(find_agent(packaged)).step == 10
    for folder in SHIPPED.iterdir():
        assert find_agent(f"pretrained/{folder.name}/") == find_agent(f"pretrained/{folder.name}") == folder
        assert load_agent(folder).provenance.environment_id


def test_local_folders_come_before_pretrained_agents_and_the_hub(packaged: Path, hub: Any) -> None:
    for name in ("pretrained/hopper-medium", "org/name"):
        shutil.copytree(packaged, name)
        assert find_agent(name) == Path(name)
    hub.repositories["org/name"] = packaged
    assert find_agent("org/name@main") == hub.cache / "org/name"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("org/other", "Hub"),
        ("org/name@v2", "Hub"),
        ("org/name", "hub-cache/org/name"),  # another library's: its config.json
        ("file", "file"),
        ("runs/misspelt", "runs/misspelled"),
        ("local/misspeled", "local/misspelled"),
        ("misspeled", "misspelled"),
        ("misspelled", "in the folder misspelled"),
        ("pretrained/hoper-medium", "pretrained/hopper-medium"),
        ("/nowhere/at/all", "/nowhere/at/all"),
    ],
)
def test_missing_agent_is_named_in_one_line(name: str, words: str, tmp_path: Path, hub: Any) -> None:
    for folder in ("runs/misspelled/checkpoints/10", "local/misspelled", "misspelled"):
        Path(folder).mkdir(parents=True)
    Path("file").touch()
    hub.repositories = {"org/name": tmp_path / "theirs", "runs/misspelt": tmp_path / "theirs"}
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InputError) as caught:
        load_agent(name)
    assert words in str(caught.value)
    assert f"mean {name}?" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert hub.cache.exists() == (name == "org/name")  # paths of this machine are not looked up on the hub


def test_without_huggingface_hub_the_extra_is_named(packaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for search in (find_agent, lambda name: push_to_hub(packaged, name)):
        with pytest.raises(InputError, match=r"org/name.*\[hub\]"):
            search("org/name")


def test_only_files_of_an_agent_are_pushed_and_downloaded(packaged: Path, tmp_path: Path, hub: Any) -> None:
    """To a repository where another agent and a file of its owner are, and back."""
    for name in ("policy.onnx", "replay.mp4"):  # as in a package with all extras
        (packaged / name).write_bytes(name.encode() + bytes(range(256)))
    before = contents(packaged)
    there = hub.repositories["org/name"] = tmp_path / "there"
    (there / "results").mkdir(parents=True)
    for name in ("results/old.json", "weights.safetensors", "LICENSE"):
        (there / name).write_text("of another agent")
    for name in ("training_state.pt", "hostile.py"):
        (packaged / name).write_text("raise SystemExit")
    assert push_to_hub(packaged, "org/name", private=True) == "https://huggingface.co/org/name/commit/1"
    assert hub.private == [True]
    assert contents(there) == {**before, "LICENSE": b"of another agent"}
    assert contents(find_agent("org/name@v1")) == before
