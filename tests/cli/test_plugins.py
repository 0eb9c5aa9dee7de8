"""`--plugins`: user modules with environments and backbones, imported only on request; from data to scores."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gymnasium
import pytest
import yaml
from guide import example

from decision_rnn.backbones import BACKBONES
from decision_rnn.cli.main import main
from decision_rnn.utils.plugins import import_plugins

SMALL = ["--training.steps", "3", "--backbone.width", "8", "--evaluation.episodes"]
PLUGINS = ("pendulum", "layers", "trap")
Command = Callable[..., "subprocess.CompletedProcess[str]"]
Refused = Callable[..., None]


@pytest.fixture
def command(inline_cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command in this process, in a folder with two plugins from the tutorials, pendulum.py and layers.py, and
    the dataset local/pendulum; what a command imports and registers is forgotten after it."""
    for module in ("pendulum.py", "layers.py"):
        (tmp_path / module).write_text(example(module))
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    for module in PLUGINS:  # such as scripts/bench/layers.py, of another test
        monkeypatch.delitem(sys.modules, module, raising=False)

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        environments, backbones = set(gymnasium.registry), set(BACKBONES)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "path", list(sys.path))
            done = inline_cli(*arguments)
        for name in set(BACKBONES) - backbones:
            del BACKBONES[name]
        for name in set(gymnasium.registry) - environments:
            del gymnasium.registry[name]
        for name in PLUGINS:
            sys.modules.pop(name, None)
        return done

    words = ["record", "MoonPendulum-v0", "--plugins", "pendulum", "--policy", "random", "--episodes", "3"]
    assert run(*words, "--output", "local/pendulum").returncode == 0
    return run


@pytest.fixture
def refused(command: Command) -> Refused:
    """Runs a command and expects a one-line error with these words."""

    def run(arguments: list[str], *words: str) -> None:
        done = command(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert [word for word in words if word not in done.stderr] == []

    return run


def test_environment_of_a_plugin_works_in_train_evaluate_and_resume(
    command: Command, refused: Refused, tmp_path: Path
) -> None:
    """The tutorial's recipe: an environment made by a function and registered under its own id."""
    train = ["train", "local/pendulum", "--output", "run", *SMALL, "1", "--processes", "1"]
    refused(train, "MoonPendulum-v0", "--plugins")
    assert not (tmp_path / "run").exists()  # refused before training
    done = command(*train, "--plugins", "pendulum")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["plugins"] == ["pendulum"]
    (path,) = (tmp_path / "run" / "results").iterdir()
    result = json.loads(path.read_text())
    assert result["config"]["plugins"] == ["pendulum"]
    refused(["evaluate", "run"], "--plugins pendulum")
    assert command("evaluate", "run", "--plugins", "pendulum", "--processes", "1").returncode == 0
    assert json.loads(path.read_text())["targets"] == result["targets"]
    refused([*train, "--resume"], "--plugins pendulum")
    assert command(*train, "--resume", "--plugins", "pendulum").returncode == 0


def test_train_without_evaluation_needs_no_environment(command: Command, refused: Refused, tmp_path: Path) -> None:
    assert command("train", "local/pendulum", "--output", "run", *SMALL, "0").returncode == 0
    assert (tmp_path / "run" / "checkpoints" / "3").is_dir()
    refused(["evaluate", "run"], "MoonPendulum-v0", "--plugins")  # before it says that it has no episodes
    refused(["compare", "local/pendulum", *SMALL, "0"], "evaluation.episodes")


def test_commands_of_a_comparison_import_its_plugins(command: Command, refused: Refused, tmp_path: Path) -> None:
    compare = ["compare", "local/pendulum", "--seeds", "1", "--controls", "none", "--output", "out", *SMALL, "1"]
    refused([*compare, "--backbones", "mingru,lru"], "MoonPendulum-v0")
    compare += ["--backbones", "average", "--plugins", "layers,pendulum"]
    line = command(*compare, "--checkpoint_episodes", "0", "--print_commands").stdout
    done = command(*shlex.split(line)[1:], "--processes", "1")
    assert done.returncode == 0, done.stderr
    assert "average on local/pendulum" in done.stdout


def test_backbone_of_a_plugin_is_chosen_by_its_registered_name(
    command: Command, refused: Refused, tmp_path: Path
) -> None:
    """With the tutorial's example, unchanged."""
    train = ["train", "local/pendulum", "--output", "run", *SMALL, "0", "--backbone.decay", "0.8"]
    refused([*train, "--backbone", "layers.Average"], "layers.Average", "plugins")
    done = command(*train, "--backbone", "average", "--plugins", "layers")
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "run" / "checkpoints" / "3" / "config.json").read_text())["config"]
    assert (config["backbone"]["name"], config["backbone"]["decay"], config["plugins"]) == ("average", 0.8, ["layers"])
    refused(["evaluate", "run", "--episodes", "1"], "--plugins layers")
    done = command("train", "--plugins", "layers", "--backbone", "average", "--help")
    assert "average" in done.stdout.split("--backbone.decay")[0]


def test_config_file_does_not_import_the_plugins_it_names(command: Command, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "trap.py").write_text("open('sprung', 'w')\n")
    (tmp_path / "run.yaml").write_text("dataset: local/pendulum\nplugins: [trap]\n")
    train = ["train", "--config", "run.yaml", *SMALL, "0"]
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


@pytest.mark.parametrize(("text", "name"), [(None, "No module named"), ("1 / 0", "division by zero")])
def test_plugin_that_cannot_be_imported_is_named(
    inline_cli: Command, tmp_path: Path, text: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    if text is not None:
        (tmp_path / "faulty.py").write_text(text)
    done = inline_cli("data", "list", "--plugins", "faulty")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "faulty" in done.stderr
    assert name in done.stderr
