"""General options of the command line: --version, --quiet, --help, shell completion, start-up without torch."""

import errno
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import decision_rnn
from decision_rnn.cli.data import ACTIONS
from decision_rnn.cli.main import COMMANDS, main
from decision_rnn.data.sources.standin import StandinSource

InlineCLI = Callable[..., "subprocess.CompletedProcess[str]"]


def test_version_prints_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"decision-rnn {decision_rnn.__version__}\n"


@pytest.mark.parametrize("where", ["before", "after"])
def test_quiet_keeps_results_and_errors_and_drops_warnings(inline_cli: InlineCLI, where: str) -> None:
    words = ["train", "hopper-medium", "--training.steps", "4", "--backbone.width", "16", "--output", "run"]
    words += ["--evaluation.episodes", "1", "--evaluation.target_returns", "[99999]"]
    done = inline_cli(*(["--quiet", *words] if where == "before" else [*words, "--quiet"]))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("mingru on standin/hopper-medium, step 4")
    table = done.stdout
    done = inline_cli("evaluate", "run", "--quiet", "--target_returns", "99999", "--episodes", "1")
    assert (done.stdout, done.stderr) == (table, "")
    done = inline_cli(*words, "--quiet")
    assert done.returncode == 2
    assert "already holds a run" in done.stderr


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        (
            ["train"],
            ["dataset", "--output", "--resume", "--processes", "--config", "--backbone", "--training.steps", "--seed"],
        ),
        (["compare"], ["dataset", "--backbones", "--controls", "--seeds"]),
        (["evaluate"], ["run", "--episodes", "--target_returns", "--inference", "--window"]),
        (["data", "info"], ["dataset", "--path", "--partial", "--plot"]),
    ],
)
def test_help_lists_the_most_used_options_first(inline_cli: InlineCLI, command: list[str], needed: list[str]) -> None:
    done = inline_cli(*command, "--help")
    first, _, others = done.stdout.partition("\ngeneral options:\n")
    shown = [line.split()[0] for line in first.splitlines() if line.startswith("  ") and line[2] != " "]
    assert shown[: len(needed)] == needed
    assert "--quiet" in others
    assert "type:" not in done.stdout
    if command == ["train"]:
        assert "Probability of dropping a channel" in done.stdout
        assert "(default: 0.0)" in done.stdout
        assert done.stdout.count("  --backbone BACKBONE") == 1
        assert "--backbone.name" not in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_script_completes_commands_and_option_keys(
    inline_cli: InlineCLI, shell: str, tmp_path: Path
) -> None:
    pytest.importorskip("shtab")
    done = inline_cli("completion", shell)
    assert done.returncode == 0, done.stderr
    for word in ("evaluate", "verify", "training.batch_size", "checkpoint_episodes", "target_returns"):
        assert word in done.stdout
    if shell == "bash":
        (tmp_path / "script.bash").write_text(done.stdout)
        for words, expected in (("tra", "train"), ("train --training.ste", "--training.steps")):
            typed = f"COMP_WORDS=(decision-rnn {words}); COMP_CWORD={len(words.split())}; _shtab_decision_rnn"
            script = f"source ./script.bash; {typed}; echo ${{COMPREPLY[@]}}"
            found = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
            assert found.stdout == f"{expected}\n"


def test_completion_for_an_unknown_shell_is_refused(inline_cli: InlineCLI) -> None:
    done = inline_cli("completion", "elvish")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "'elvish' (choose from" in done.stderr


QUICK = [
    (["--version"], "decision-rnn "),
    (["--help"], "usage: "),
    *(([command, "--help"], "usage: ") for command in COMMANDS if command != "data"),
    (["train", "--backbone", "transformer", "--objective", "flow_matching", "--help"], "usage: "),
    (["trian"], "unknown command 'trian'"),
    (["train", "hoper-medium"], "did you mean standin/hopper-medium?"),
    (["train", "hopper-medium", "--training.stepz", "3"], "unknown key 'training.stepz'"),
    (["compare", "hoper-medium"], "did you mean standin/hopper-medium?"),
    (["evaluate", "runs/hoper"], "there is no run runs/hoper"),
    (["export", "runs/hoper"], "there is no run runs/hoper"),
    (["play", "runs/hoper", "--video", "episode.mp4"], "there is no run runs/hoper"),
    (["evaluate", "run", "--episode", "3"], "unknown argument '--episode'"),
    (["bench"], "\n  deploy     an exported policy"),
    (["bench", "trian"], "unknown benchmark 'trian'"),
]
"""Commands, and what they print."""
OF_DATA = [
    (["data", "--help"], "usage: "),
    *((["data", action, "-h"], "usage: ") for action in ACTIONS),
    (["data", "list"], "standin/"),
]
"""Those that may import Gymnasium and Minari."""
SLOW = ("gymnasium", "matplotlib", "minari", "mujoco", "scipy", "torch")
NOT_NEEDED = """
import contextlib, io, json, sys
from decision_rnn.cli.main import main

for words in json.loads(sys.argv[1]):
    text = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        main(words)
    print(json.dumps([text.getvalue(), sorted(set(sys.argv[2:]) & sys.modules.keys())]))
"""


def test_version_help_and_errors_in_names_import_nothing_slow(small_environment: dict[str, str]) -> None:
    """All in one process: what a command imports stays."""
    words = [words for words, _ in (*QUICK, *OF_DATA)]
    command = [sys.executable, "-c", NOT_NEEDED, json.dumps(words), *SLOW]
    done = subprocess.run(command, env=small_environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for (words, printed), (text, imported) in zip((*QUICK, *OF_DATA), lines, strict=True):
        assert printed in text, words
        assert set(imported) <= ({"gymnasium", "minari"} if words[0] == "data" else set()), words


def test_command_without_its_packages_says_what_to_install() -> None:
    """As in the environment of `decision_rnn.deploy`, where only numpy and onnxruntime are."""
    code = (
        "import sys; sys.modules['torch'] = None; from decision_rnn.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "evaluate", "pretrained/hopper-medium"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith(
        "decision-rnn: `decision-rnn evaluate` needs the package torch, which is not installed"
    )
    assert done.stderr.count("\n") == 1


def test_deleted_working_folder_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(["data", "list"]) == 2
    assert capsys.readouterr().err == (
        "decision-rnn: the working folder has been deleted: change into one that exists\n"
    )


def test_output_in_an_ascii_encoding_replaces_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "decision_rnn.cli.report", SimpleNamespace(run=lambda words: print("5 ± 3")))
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))
    assert main(["report"]) == 0
    assert written.getvalue() == b"5 ? 3\n"


def test_data_list_survives_a_dataset_that_cannot_be_read(
    inline_cli: InlineCLI, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*arguments: object) -> Path:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(StandinSource, "folder", forbidden)
    done = inline_cli("data", "list")
    assert done.returncode == 0
    assert "standin/hopper-medium                         cannot be read: Permission denied\n" in done.stdout
    assert "d4rl/hopper-medium-v2\n" in done.stdout
