"""The page for a browser: its folder, its server, and where its runtimes come from. No network, no browser."""

import base64
import hashlib
import io
import json
import subprocess
import tarfile
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from decision_rnn.config import ObservationConfig
from decision_rnn.deploy.browser import page, runtimes
from decision_rnn.deploy.browser.page import Subject, server, write_page
from decision_rnn.deploy.browser.runtimes import RUNTIMES, runtime_files
from decision_rnn.evaluation.subjects import load_subject
from decision_rnn.training.checkpoint import TrainedAgent, write_agent
from decision_rnn.utils.errors import InputError

CLI = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a registry that nothing answers for."""
    monkeypatch.setenv("DECISION_RNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    return tmp_path / "cache"


@pytest.fixture
def fetched(cache: Path) -> None:
    """The cache with files in place of the runtimes."""
    for runtime in RUNTIMES:
        runtime.folder.mkdir(parents=True)
        for file in runtime.files:
            (runtime.folder / Path(file).name).write_text(file)


def subject_of(path: Path) -> Subject:
    return Subject(str(path), load_subject(path)[0], path)


def test_the_folder_of_a_page(fetched: None, policy_path: Path, tmp_path: Path) -> None:
    subject = subject_of(policy_path)
    hidden = replace(
        subject.trained, config=replace(subject.trained.config, observation=ObservationConfig(mask="velocity"))
    )
    write_page(tmp_path / "page", [subject, subject._replace(trained=hidden)], target_return=1800.0, seed=3)
    names = {path.relative_to(tmp_path / "page").as_posix() for path in (tmp_path / "page").rglob("*")}
    assert names >= {"index.html", "style.css", "page.js", "policy.js", "environment.js", "page.json"}
    assert names >= {f"runtimes/{Path(file).name}" for runtime in RUNTIMES for file in runtime.files}
    assert names >= {
        "licences/mujoco-LICENSE.txt",
        "licences/onnxruntime-LICENSE.txt",
        "licences/gymnasium-LICENSE.txt",
    }
    for file in ("policy.onnx", "policy-2.onnx"):
        assert (tmp_path / "page" / file).read_bytes() == policy_path.read_bytes()
    assert 'joint="thigh_joint"' in (tmp_path / "page/body.xml").read_text()
    text = (tmp_path / "page/page.json").read_text()
    content = json.loads(text)
    assert str(tmp_path) not in text  # it is to be published
    wanted = {"environment_id": "Hopper-v5", "steps": 1000, "seed": 3, "target_return": 1800.0}
    assert {key: content[key] for key in wanted} == wanted
    assert [agent["name"] for agent in content["agents"]] == [
        "1. mingru of standin/hopper-medium",
        "2. mingru of standin/hopper-medium, velocity hidden",
    ]
    assert {part["licence"] for part in content["vendored"]} == {"Apache-2.0", "MIT"}


def test_messages_while_a_page_is_made_name_the_users_files(
    fetched: None, trained: TrainedAgent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = replace(trained.config.evaluation, inference="window", window=7)
    windowed = replace(trained, config=replace(trained.config, evaluation=settings))
    write_page(tmp_path / "page", [Subject("mine", windowed, tmp_path)])
    message = capsys.readouterr().err
    assert message.startswith("policy.onnx ")
    assert "/" not in message  # such as the temporary folder in which the page is made


def test_the_page_asks_for_nothing_outside_its_folder() -> None:
    text = "".join(path.read_text() for path in page.SITE.iterdir())
    assert "default-src 'none'" in text
    assert "http://" not in text
    assert "https://" not in text


def test_the_server_sends_the_types_that_browsers_insist_on(tmp_path: Path) -> None:
    kinds = {"a.mjs": "text/javascript", "a.js": "text/javascript", "a.wasm": "application/wasm"}
    with server(tmp_path) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        for name, kind in kinds.items():
            (tmp_path / name).touch()
            with urllib.request.urlopen(f"http://127.0.0.1:{serving.server_port}/{name}") as answer:
                assert answer.headers["Content-Type"] == kind
        serving.shutdown()


def test_runtimes_come_from_the_registry_once_and_by_checksum(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tarball = io.BytesIO()
    with tarfile.open(fileobj=tarball, mode="w:gz") as archive:
        for name in ("package/dist/a.mjs", "package/other.js", "../outside"):
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"text"))
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball.getvalue()).digest()).decode()
    runtime = replace(RUNTIMES[0], integrity=integrity, files=("dist/a.mjs",))
    monkeypatch.setattr(runtimes, "RUNTIMES", (runtime,))
    (tmp_path / runtime.path).parent.mkdir(parents=True)
    (tmp_path / runtime.path).write_bytes(tarball.getvalue() + b"changed")
    with server(tmp_path) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{serving.server_port}")
        with pytest.raises(InputError, match=r"is not @mujoco/mujoco 3\.14\.0 as it was published .*registry"):
            runtime_files()
        assert not runtime.folder.exists()
        (tmp_path / runtime.path).write_bytes(tarball.getvalue())
        assert runtime_files() == [runtime.folder / "a.mjs"]
        serving.shutdown()
    assert runtime_files() == [runtime.folder / "a.mjs"]  # without the server
    assert [path.name for path in runtime.folder.iterdir()] == ["a.mjs"]


def test_without_a_network_one_sentence_and_no_folder(cache: Path, policy_path: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"^cannot download @mujoco/mujoco 3\.14\.0, .* with a network, or name another"
    ):
        write_page(tmp_path / "page", [subject_of(policy_path)])
    assert not (tmp_path / "page").exists()


def test_play_browser_says_in_one_line_what_it_cannot_do(
    inline_cli: CLI, fetched: None, pendulum: Callable[..., TrainedAgent], policy_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "pendulum").mkdir()
    write_agent(tmp_path / "pendulum", pendulum())
    hopper, output = str(policy_path), ("--output", "page")
    for arguments, reason in {
        ("pendulum", "--browser", *output): "pendulum acts in Pendulum-v1, and the page has Hopper-v5, Walker2d-v5 and",
        (hopper, "--browser", "--video", "a.mp4"): "--browser",
        (hopper, "--browser", "--output", "."): ". is there already",
    }.items():
        done = inline_cli("play", *arguments)
        assert done.returncode == 2
        assert reason in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "page").exists()
