"""`--plugins`: user modules with environments and backbones, imported only on request; from data to scores."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import yaml
from guide import example

from decision_rnn.backbones import BACKBONES
from decision_rnn.cli.main import main
from decision_rnn.utils.plugins import import_plugins

ENVIRONMENT = example("pendulum.py")
COLLECT = """
import numpy as np
import pendulum
from decision_rnn import play_episodes, write_store

episodes = play_episodes("MoonPendulum-v0", lambda observation: np.zeros(1), episodes=3)
write_store("local/pendulum", episodes, environment_id="MoonPendulum-v0")
"""
SMALL = ["--training.steps", "3", "--backbone.width", "8", "--evaluation.episodes", "1"]

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Refused = Callable[..., None]


def read_result(run: Path) -> dict[str, Any]:
    """The only result in a run's folder."""
    (path,) = (run / "results").iterdir()
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def environment(small_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables with which local/pendulum is found, collected in the plugin's environment."""
    folder = tmp_path_factory.mktemp("collected")
    (folder / "pendulum.py").write_text(ENVIRONMENT)
    environment = {**small_environment, "DECISION_RNN_DATA": str(folder / "data")}
    subprocess.run([sys.executable, "-c", COLLECT], env=environment, cwd=folder, check=True)
    return environment


@pytest.fixture
def command(
    environment: dict[str, str], inline_cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Runs a command in this process, in a folder with two plugins from the tutorials, pendulum.py and layers.py; what
    it has imported and registered is forgotten after it."""
    (tmp_path / "pendulum.py").write_text(ENVIRONMENT)
    (tmp_path / "layers.py").write_text(example("layers.py"))
    monkeypatch.setenv("DECISION_RNN_DATA", environment["DECISION_RNN_DATA"])

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        environments, modules = set(gymnasium.registry), set(sys.modules)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BACKBONES, "entries", dict(BACKBONES.entries))
            patch.setattr(sys, "path", list(sys.path))
            done = inline_cli(*arguments)
        for name in set(gymnasium.registry) - environments:
            del gymnasium.registry[name]
        for name in {"pendulum", "layers", "trap"} - modules:
            sys.modules.pop(name, None)
        return done

    return run


@pytest.fixture
def refused(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Refused:
    """Runs a command in this process and expects a one-line error with these words; it must not import plugins."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DECISION_RNN_DATA", environment["DECISION_RNN_DATA"])
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(arguments: list[str], *words: str) -> None:
        capfd.readouterr()
        assert main(arguments) == 2
        message = capfd.readouterr().err
        assert len(message.splitlines()) == 1, message
        for word in words:
            assert word in message

    return run


def test_environment_registered_by_a_plugin_works_in_train_evaluate_and_resume(
    command: Command, refused: Refused, tmp_path: Path
) -> None:
    """The tutorial's recipe: an environment made by a function and registered under its own id."""
    train = ["train", "local/pendulum", "--output", "run", *SMALL]
    refused(train, "MoonPendulum-v0", "--plugins")
    assert not (tmp_path / "run").exists()  # refused before training
    train += ["--processes", "1"]
    done = command(*train, "--plugins", "pendulum")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["plugins"] == ["pendulum"]
    result = read_result(tmp_path / "run")
    assert result["config"]["plugins"] == ["pendulum"]
    refused(["evaluate", "run"], "--plugins pendulum")
    done = command("evaluate", "run", "--plugins", "pendulum", "--processes", "1")
    assert done.returncode == 0, done.stderr
    assert read_result(tmp_path / "run")["targets"] == result["targets"]
    refused([*train, "--resume"], "--plugins pendulum")
    assert command(*train, "--resume", "--plugins", "pendulum").returncode == 0


def test_train_without_evaluation_needs_no_environment(command: Command, refused: Refused, tmp_path: Path) -> None:
    done = command("train", "local/pendulum", "--output", "run", *SMALL[:-1], "0")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "checkpoints" / "3").is_dir()
    assert not (tmp_path / "run" / "results").exists()
    refused(["evaluate", "run"], "MoonPendulum-v0", "--plugins")  # before it says that it has no episodes
    refused(["evaluate", "run", "--episodes", "1"], "MoonPendulum-v0")
    refused(["compare", "local/pendulum", *SMALL[:-1], "0"], "evaluation.episodes")


def test_compare_imports_plugins_in_its_worker_processes(command: Command, refused: Refused, tmp_path: Path) -> None:
    compare = ["compare", "local/pendulum", "--seeds", "1", "--jobs", "1", "--controls", "none", *SMALL]
    refused([*compare, "--backbones", "mingru,lru"], "MoonPendulum-v0")
    done = command(*compare, "--backbones", "average", "--plugins", "layers,pendulum")
    assert done.returncode == 0, done.stderr
    assert "| average |" in done.stdout
    assert (tmp_path / "runs" / "compare-local-pendulum" / "comparison.json").is_file()


def test_backbone_of_a_plugin_is_chosen_by_its_registered_name(
    command: Command, refused: Refused, tmp_path: Path
) -> None:
    """With the tutorial's example, unchanged."""
    train = ["train", "local/pendulum", "--output", "run", *SMALL[:-1], "0", "--backbone.decay", "0.8"]
    refused([*train, "--backbone", "layers.Average"], "layers.Average", "plugins")
    refused([*train, "--backbone", "average"], "average", "plugins")
    done = command(*train, "--backbone", "average", "--plugins", "layers")
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "run" / "checkpoints" / "3" / "config.json").read_text())["config"]
    assert (config["backbone"]["name"], config["backbone"]["decay"], config["plugins"]) == ("average", 0.8, ["layers"])
    refused(["evaluate", "run", "--episodes", "1"], "--plugins layers")
    done = command("train", "--plugins", "layers", "--backbone", "average", "--help")
    assert "--backbone.decay" in done.stdout
    assert "average" in done.stdout.split("--backbone.decay")[0]


def test_config_file_does_not_import_the_plugins_it_names(command: Command, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "trap.py").write_text("open('sprung', 'w')\n")
    (tmp_path / "run.yaml").write_text("dataset: local/pendulum\nplugins: [trap]\n")
    train = ["train", "--config", "run.yaml", *SMALL[:-1], "0"]
    refused(train, "run.yaml", "--plugins trap")
    assert not (tmp_path / "sprung").exists()
    assert command(*train, "--plugins", "trap").returncode == 0
    assert (tmp_path / "sprung").exists()


def test_working_folder_is_on_the_path_only_for_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a stray onnxruntime.py among downloads would be executed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "only_a_plugin.py").write_text("")
    import_plugins([])
    assert main(["data", "list"]) == 0
    assert str(tmp_path) not in sys.path
    import_plugins(["only_a_plugin"])
    assert sys.path[-1] == str(tmp_path)  # after what is installed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ["faulty", "No module named"]),
        ("import nothing_of_that_name", ["faulty", "nothing_of_that_name"]),
        ("1 / 0", ["faulty", "division by zero"]),
        ("raise SystemExit(0)", ["faulty"]),
        ("def", ["faulty", "syntax"]),
    ],
)
def test_plugin_that_cannot_be_imported_is_named_in_the_error(
    refused: Refused, tmp_path: Path, text: str | None, words: list[str]
) -> None:
    if text is not None:
        (tmp_path / "faulty.py").write_text(text)
    for rest in (["train", "hopper-medium"], ["data", "list"], ["evaluate", "run"]):
        refused([*rest, "--plugins", "faulty"], "--plugins", *words)
