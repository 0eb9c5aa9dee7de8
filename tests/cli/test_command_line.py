"""What all commands share: --version, --quiet, --help, option names, errors, start-up without torch."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from run_config import parse_run

import decision_rnn
from decision_rnn.cli import COMMANDS
from decision_rnn.cli.data import ACTIONS
from decision_rnn.cli.main import describe_failure, main

InlineCLI = Callable[..., "subprocess.CompletedProcess[str]"]


def test_version_and_help_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"decision-rnn {decision_rnn.__version__}\n"
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in COMMANDS)


@pytest.mark.parametrize("command", [*COMMANDS, *(f"data {action}" for action in ACTIONS)])
def test_help_describes_a_command_and_its_options(inline_cli: InlineCLI, command: str) -> None:
    done = inline_cli(*command.split(), "--help")
    assert done.returncode == 0
    usage, description, *groups = done.stdout.split("\n\n")
    assert usage.startswith(f"usage: decision-rnn {command}")
    assert description.endswith(".")
    assert "general options:" in [group.splitlines()[0] for group in groups]
    for key, text in (("--training.steps", "2000"), ("--backbone.dropout", "0.0"), ("--plugins", "modules")):
        if key == "--plugins" or command in ("train", "compare"):
            assert text in done.stdout.partition(f"  {key} ")[2][:300]


@pytest.mark.parametrize("words", [["--backbone", "lru"], ["--backbone.name=lru", "--plugins", ""]])
def test_help_has_the_options_of_the_chosen_backbone(inline_cli: InlineCLI, words: list[str]) -> None:
    done = inline_cli("train", *words, "--help")
    assert done.returncode == 0
    assert "--backbone.max_phase" in done.stdout
    assert "Probability of dropping a channel" in done.stdout


def test_quiet_keeps_results_and_errors_and_drops_warnings(inside: Path, inline_cli: InlineCLI) -> None:
    words = ["train", "local/swing", "--training.steps", "2", "--backbone.width", "16", "--output", "run"]
    words += ["--evaluation.episodes", "1", "--evaluation.target_returns", "[99999]", "--processes", "1"]
    done = inline_cli("--quiet", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mingru on local/swing, step 2")
    evaluate = ["evaluate", "run", "--target_returns", "99999", "--episodes", "1", "--processes", "1", "--quiet"]
    assert inline_cli(*evaluate).stdout == done.stdout
    done = inline_cli(*words, "--quiet")
    assert done.returncode == 2
    assert "run" in done.stderr


def test_dashes_in_option_names_are_underscores_and_null_is_none() -> None:
    words = "standin/hopper-medium --training.batch-size 64 --top-fraction=0.5 --training.learning_rate null"
    config, _ = parse_run("test", words.split())
    assert (config.dataset, config.training.batch_size, config.top_fraction) == ("standin/hopper-medium", 64, 0.5)
    assert config.training.learning_rate is None


def test_bare_name_is_announced_with_its_source_first(inline_cli: InlineCLI) -> None:
    first = inline_cli("data", "info", "hopper-medium").stdout.splitlines()[0]
    assert "standin/hopper-medium" in first
    assert "d4rl/hopper-medium-v2" in first
    assert inline_cli("train", "hopper-medium", "--training.steps", "0").stdout.splitlines()[0] == first
    mixed = inline_cli("train", "hopper-mixed", "--training.steps", "0").stdout  # which D4RL does not have
    assert "standin/hopper-mixed" in mixed
    assert "d4rl/" not in mixed
    assert inline_cli("data", "info", "standin/hopper-medium").stdout.splitlines()[0] == "standin/hopper-medium"
    for unknown in ("info", "nosuch"), ("remove", "mine"):
        assert inline_cli("data", *unknown).stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("trian", ["trian", "train"]),
        ("train", ["dataset"]),
        ("train hoper-medium", ["hoper-medium", "hopper-medium"]),
        ("train hopper-medium --training.stepz 3", ["training.stepz", "training.steps"]),
        ("train hopper-medium --backbone transformer --backbone.heads 3", ["backbone.heads"]),
        ("train hopper-medium --output /dev/null/run", ["/dev/null"]),
        ("compare hopper-medium --seeds 0", ["seeds"]),
        ("compare hopper-medium --backbones mingru,nothing", ["nothing"]),
        ("compare hopper-medium --backbone lru", ["--backbones"]),
        ("evaluate nowhere", ["nowhere"]),
        (f"evaluate {'a' * 300}", ["File name too long"]),
        ("evaluate . --target_returns many", ["target_returns", "many"]),
        ("evaluate . --episode 3", ["--episode", "episodes"]),
        ("evaluate pretrained/hopper-medium --processes 0", ["processes"]),
        ("data", ["ACTION"]),
        ("data export hopper-medium", ["--format", "--output"]),
        ("data export a --formt d4rl", ["--formt", "Did you mean format", "data export --help"]),
        ("data import q.csv --nmae local/x", ["--nmae", "Did you mean name", "data import --help"]),
        ("data --plugins nosuch list", ["nosuch"]),
    ],
)
def test_invalid_arguments_print_one_line_and_exit_2(inline_cli: InlineCLI, arguments: str, words: list[str]) -> None:
    done = inline_cli(*arguments.split(), "--quiet")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("decision-rnn: ")
    assert [word for word in words if word not in line] == []


def test_command_line_starts_without_torch_and_changes_no_process() -> None:
    """Where torch is missing, as with `decision_rnn.deploy` alone, a command names it."""
    code = """
import os, sys
before = dict(os.environ)
import decision_rnn
from decision_rnn.cli.main import describe_failure, main
from decision_rnn.data.sources.local import write_store
from decision_rnn.data.store import EpisodeStore
main(["--version"])
assert "torch" not in sys.modules
assert dict(os.environ) == before
sys.modules["torch"] = None
sys.exit(main(["evaluate", "pretrained/hopper-medium"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "torch" in done.stderr


def test_only_errors_of_memory_are_reported_as_such() -> None:
    for error in (MemoryError(), RuntimeError("CUDA out of memory")):
        assert "not enough memory" in describe_failure(error, "train")[0]
    with pytest.raises(NotImplementedError):
        describe_failure(NotImplementedError(), "train")


def test_closed_output_pipe_is_not_an_error(small_environment: dict[str, str]) -> None:
    lines = f"{sys.executable} -u -m decision_rnn data list | head -n 1"
    done = subprocess.run(lines, shell=True, env=small_environment, capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
