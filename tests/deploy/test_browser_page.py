"""The page for a browser: its folder, its server, and where its runtimes come from. No network, no browser."""

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import onnxruntime
import pytest

from decision_rnn.config import ObservationConfig
from decision_rnn.deploy import browser
from decision_rnn.deploy.browser import SITE, Subject, server, write_page
from decision_rnn.deploy.policies import load_subject
from decision_rnn.runs.checkpoint import TrainedAgent, write_agent
from decision_rnn.utils.errors import InputError

CLI = Callable[..., subprocess.CompletedProcess[str]]
FILES = ("a.mjs", "a.js", "a.wasm")


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The tarball of the only runtime, in a folder that `server` serves as a registry; the cache is empty."""
    path = tmp_path / "registry" / "@org/name/-/name-1.0.tgz"
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:gz") as archive:
        for file in (*(f"package/dist/{file}" for file in FILES), "package/other.js", "../outside"):
            member = tarfile.TarInfo(file)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"text"))
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    runtime = {"name": "@org/name", "version": "1.0", "licence": "MIT", "url": "", "integrity": integrity}
    monkeypatch.setattr(browser, "RUNTIMES", [{**runtime, "files": [f"dist/{file}" for file in FILES]}])
    monkeypatch.setenv("DECISION_RNN_CACHE", str(tmp_path / "cache"))
    with server(tmp_path / "registry") as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{serving.server_port}")
        yield path
        serving.shutdown()


def subject_of(path: Path) -> Subject:
    return Subject(str(path), load_subject(path))


def test_the_folder_of_a_page(registry: Path, policy_path: Path, tmp_path: Path) -> None:
    subject, page = subject_of(policy_path), tmp_path / "page"
    masked = replace(subject.trained.config, observation=ObservationConfig(mask="velocity"))
    hidden = subject._replace(trained=replace(subject.trained, config=masked))
    write_page(page, [subject, hidden], target_return=1800.0, seed=3)
    names = {path.relative_to(page).as_posix() for path in page.rglob("*")}
    assert names >= {"index.html", "style.css", "page.js", "policy.js", "environment.js", "page.json"}
    assert {name for name in names if "runtimes/" in name} == {f"runtimes/{file}" for file in FILES}
    assert names >= {f"licences/{module}-LICENSE.txt" for module in ("mujoco", "onnxruntime", "gymnasium")}
    for file in ("policy.onnx", "policy-2.onnx"):
        assert (page / file).read_bytes() == policy_path.read_bytes()
    metadata = json.loads(onnxruntime.InferenceSession(policy_path).get_modelmeta().custom_metadata_map["decision_rnn"])
    assert 'joint="thigh_joint"' in (page / "body.xml").read_text()
    text = (page / "page.json").read_text()
    content = json.loads(text)
    assert str(tmp_path) not in text  # it is to be published
    wanted = {"environment_id": "Hopper-v5", "steps": 1000, "seed": 3, "target_return": 1800.0}
    assert {key: content[key] for key in wanted} == wanted
    assert [agent["name"] for agent in content["agents"]] == [
        "1. mingru of standin/hopper-medium",
        "2. mingru of standin/hopper-medium, velocity hidden",
    ]
    assert [agent["metadata"] for agent in content["agents"]] == [metadata] * 2
    assert [package["version"] for package in content["vendored"]] == ["1.0", version("gymnasium")]


def test_page_without_the_extra_is_refused_before_anything_is_fetched(
    registry: Path, policy_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = subject_of(policy_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"onnxruntime.*\.\[onnx\]"):
        write_page(tmp_path / "page", [subject])
    assert not (tmp_path / "cache").exists()


def test_runtimes_come_from_the_registry_once_and_by_checksum(registry: Path) -> None:
    (runtime,), data = browser.RUNTIMES, registry.read_bytes()
    registry.write_bytes(data + b"changed")
    with pytest.raises(InputError, match=r"name-1\.0"):
        browser.fetch(runtime)
    registry.write_bytes(data)
    path = browser.fetch(runtime)
    assert path.read_bytes() == data
    registry.unlink()
    assert browser.fetch(runtime) == path
    path.unlink()
    with pytest.raises(InputError, match=r"name-1\.0.*npm_config_registry"):
        browser.fetch(runtime)


def test_the_page_requests_nothing_outside_its_folder() -> None:
    text = "".join(path.read_text() for path in SITE.iterdir())
    assert "default-src 'none'" in text
    assert "http://" not in text
    assert "https://" not in text


def test_play_browser_says_in_one_line_what_it_cannot_do(
    inline_cli: CLI, registry: Path, pendulum: Callable[..., TrainedAgent], policy_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "pendulum").mkdir()
    write_agent(tmp_path / "pendulum", pendulum())
    registry.unlink()
    hopper, output = str(policy_path), ("--output", "page")
    for arguments, reason in {
        ("pendulum", "--browser", *output): "pendulum acts in Pendulum-v1",
        (hopper, "pendulum", *output): "pendulum acts in Pendulum-v1",
        (hopper, "--browser", "--video", "a.mp4"): "--browser",
        (hopper, "--browser", "--output", "."): "cannot write .",
        (hopper, "--browser", *output): "cannot download name-1.0",
    }.items():
        done = inline_cli("play", *arguments)
        assert done.returncode == 2
        *before, last = done.stderr.splitlines()
        assert reason in last
        assert len(before) == ("cannot download" in reason)
    assert not (tmp_path / "page").exists()
