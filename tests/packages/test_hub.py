"""Agents by name: search order, downloads from the hub, pushes, and errors."""

import shutil
import sys
from pathlib import Path

import pytest
from hub_server import COMMIT, HubServer

from decision_rnn.deploy.hub import find_agent, pretrained_agents, push_to_hub
from decision_rnn.deploy.package import package
from decision_rnn.training.checkpoint import last_checkpoint, load_agent
from decision_rnn.utils.errors import InputError

huggingface_hub = pytest.importorskip("huggingface_hub")

pytestmark = pytest.mark.usefixtures("without_extras")


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "working"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def packaged(run: Path, tmp_path: Path) -> Path:
    return package(run, tmp_path / "packaged")[0]


def test_find_agent_finds_runs_checkpoints_and_packages(run: Path, packaged: Path) -> None:
    assert find_agent(run) == last_checkpoint(run) == run / "checkpoints" / "10"
    assert find_agent(str(run / "checkpoints" / "5")) == run / "checkpoints" / "5"
    assert load_agent(find_agent(run / "checkpoints" / "10")).step == 10
    assert load_agent(find_agent(packaged)).step == 10


def test_find_agent_finds_every_pretrained_agent() -> None:
    assert "hopper-medium" in pretrained_agents()
    for name in pretrained_agents():
        assert load_agent(find_agent(f"pretrained/{name}")).provenance.environment_id
    assert find_agent("pretrained/hopper-medium/") == find_agent("pretrained/hopper-medium")


def test_find_agent_prefers_local_folders_to_pretrained_agents_and_the_hub(
    run: Path, packaged: Path, working_folder: Path, hub: HubServer
) -> None:
    for name in ("pretrained/hopper-medium", "org/name"):
        shutil.copytree(packaged, working_folder / name)
        assert find_agent(name) == Path(name)
    hub.repositories["org/name"] = packaged
    assert find_agent("org/name@main") != Path("org/name")
    shutil.rmtree("org")
    assert find_agent("org/name").is_absolute()


def test_find_agent_downloads_only_agent_files_and_caches_them(packaged: Path, hub: HubServer) -> None:
    (packaged / "hostile.py").write_text("raise SystemExit")
    (packaged / "training_state.pt").write_bytes(b"pickle")
    hub.repositories["org/name"] = packaged
    folder = find_agent("org/name@v1")
    assert (folder / "weights.safetensors").read_bytes() == (packaged / "weights.safetensors").read_bytes()
    assert load_agent(folder).step == 10
    assert sorted(file.split("/")[0] for file in hub.fetched) == [
        *("README.md", "config.json", "results", "weights.safetensors"),
    ]
    hub.fetched.clear()
    assert find_agent("org/name@v1") == find_agent(f"org/name@{COMMIT}") == folder
    assert hub.fetched == []  # served from the cache


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("org/other", ["org/other", "Hub"]),
        ("org/name@v2", ["org/name@v2", "Hub"]),
        ("org/theirs", ["org/theirs", "weights.safetensors"]),
        ("file", ["file"]),
        ("local/empty", ["local/empty"]),
    ],
)
def test_missing_agent_is_named_in_one_line(
    name: str, words: list[str], packaged: Path, working_folder: Path, tmp_path: Path, hub: HubServer
) -> None:
    hub.repositories |= {"org/name": packaged, "org/theirs": tmp_path / "theirs"}
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "config.json").write_text('{"model_type": "bert"}')
    (working_folder / "file").touch()
    (working_folder / "local" / "empty").mkdir(parents=True)
    with pytest.raises(InputError) as caught:
        find_agent(name)
    assert all(word in str(caught.value) for word in words)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("runs/misspelt", "runs/misspelled"),
        ("runs/nothing-like-it", None),
        ("local/misspeled", "local/misspelled"),
        ("misspeled", "misspelled"),
        ("pretrained/hoper-medium", "pretrained/hopper-medium"),
        ("/nowhere/at/all", None),
        ("a/b/c", None),
    ],
)
def test_mistyped_local_path_is_not_looked_up_on_the_hub(
    name: str, nearest: str | None, working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("runs/misspelled/checkpoints/10", "local/misspelled", "misspelled"):
        (working_folder / folder).mkdir(parents=True)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("the Hub was asked"))
    with pytest.raises(InputError) as caught:
        find_agent(name)
    message = str(caught.value)
    assert name in message
    assert nearest is None or nearest in message


def test_find_agent_offline_uses_the_cache_or_raises_one_line(packaged: Path, hub: HubServer) -> None:
    hub.repositories["org/name"] = packaged
    folder = find_agent("org/name")
    hub.shutdown()
    hub.server_close()
    assert find_agent("org/name") == folder
    for ask in (find_agent, lambda name: push_to_hub(packaged, name)):
        with pytest.raises(InputError, match="org/other"):
            ask("org/other")


def test_find_agent_and_push_to_hub_without_huggingface_hub_name_the_extra(
    packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"org/name.*huggingface_hub"):
        find_agent("org/name")
    with pytest.raises(InputError, match="huggingface_hub"):
        push_to_hub(packaged, "org/name")


def test_push_to_hub_refuses_unpackaged_agents_and_invalid_repository_ids(run: Path, hub: HubServer) -> None:
    with pytest.raises(InputError, match="is not a packaged agent"):
        push_to_hub(last_checkpoint(run), "org/name")
    for name in ("name", "org/name@v1", "a/b/c", ""):
        with pytest.raises(InputError, match="org/name"):
            push_to_hub(run, name)
    assert hub.created == []


def test_load_agent_of_a_damaged_hub_package_says_to_get_it_again(packaged: Path, hub: HubServer) -> None:
    (packaged / "weights.safetensors").write_bytes(b"short")
    hub.repositories["org/name"] = packaged
    with pytest.raises(InputError, match=r"weights\.safetensors"):
        load_agent(find_agent("org/name"))


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file in a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_push_to_hub_uploads_every_file_of_a_package_unchanged(packaged: Path, tmp_path: Path, hub: HubServer) -> None:
    """To a local hub, where another agent and a file of its owner are; and back. Only an agent's files are uploaded."""
    for name in ("policy.onnx", "replay.mp4"):  # as in a package with all extras
        (packaged / name).write_bytes(name.encode() + bytes(range(256)))
    held = contents(packaged)
    assert {name.split("/")[0] for name in held} == {
        *("README.md", "config.json", "policy.onnx", "replay.mp4", "results", "weights.safetensors"),
    }
    there = hub.repositories["org/name"] = tmp_path / "there"
    (there / "results").mkdir(parents=True)
    for name in ("results/old.json", "weights.safetensors", "LICENSE"):
        (there / name).write_text("of another agent")
    (packaged / "training_state.pt").write_bytes(b"pickle")
    url = push_to_hub(packaged, "org/name", private=True)
    assert url == f"{hub.address}/org/name/commit/{COMMIT}"
    assert hub.created == [True]
    assert contents(there) == {**held, "LICENSE": b"of another agent"}
    assert contents(find_agent("org/name")) == held
