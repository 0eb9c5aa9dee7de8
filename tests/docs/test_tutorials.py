"""The tutorials: every Python block and every command in them is run, in order, on tiny data.

The fast tests run what needs no separate process; `pytest -m slow` also runs comparisons and reports. Sizes that are
reduced here are listed in SIZES and SMALLER.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from guide import ROOT, TUTORIALS, CodeBlock, code_blocks

import decision_rnn

Command = Callable[..., "subprocess.CompletedProcess[str]"]

ONE_EPISODE = {"--evaluation.episodes": 1, "--training.steps": 3, "--backbone.layers": 1}
SIZES = {
    "train": {"--backbone.width": 8, **ONE_EPISODE},
    "compare": {"--checkpoint_episodes": 1, "--seeds": 1, **ONE_EPISODE},
    "play": {"--episodes": 1},
    "evaluate": {"--episodes": 1},
}
"""Options of a command that are at most so large here, and are given where the page leaves them out."""
SMALLER = {
    'backbone="lru", steps=2000': 'backbone={"name": "lru", "width": 8}, steps=3',
    "steps=2000, output": "steps=3, training={'log_every': 1}, output",
    'run.evaluate(["auto", 1800])': 'run.evaluate(["auto", 1800], episodes=1)',
    "600k": "3k",
    "for seed in range(30):": "for seed in range(6):",
}
"""What stands in a page, and what is run in its place."""
LONG = {"own-data", "does-my-task-need-memory"}
"""Tutorials that take longest, which only the slow tests run."""
PROCESSES = ("compare", "package", "play")
"""Commands that start processes, need what those made, or take long: left to the slow tests."""


@pytest.fixture
def folder(
    registries: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_environment: dict[str, str]
) -> Iterator[Path]:
    """The working folder; what a page registers and imports is removed afterwards."""
    monkeypatch.setitem(small_environment, "DECISION_RNN_DATA", str(tmp_path / "data"))  # for separate processes
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def run_page(page: Path, command: Command, leave_out: tuple[str, ...] = ()) -> None:
    """Run a page's blocks in the working folder."""
    namespace: dict[str, Any] = {"__name__": "tutorial"}
    for block in code_blocks(page):
        if block.title is not None:
            Path(block.title).write_text(block.text)
        elif block.language == "python":
            exec(compile(smaller(block), f"{page}:{block.line}", "exec"), namespace)
        elif block.language == "bash":
            for line in smaller(block).splitlines():
                name, *words = shlex.split(line, comments=True)
                assert name == "decision-rnn", f"{page}:{block.line}: a bash block is run, and holds {name}"
                if words[0] not in leave_out:
                    run_command(words, command)
        else:
            assert block.language in ("console", "text", "yaml"), f"{page}:{block.line}: {block.language} is not run"


def run_command(words: list[str], command: Command) -> None:
    """Run a command with options no larger than in SIZES, unless it makes a video and nothing renders here."""
    words = list(words)
    for option, largest in SIZES.get(words[0], {}).items():
        if option in words:
            place = words.index(option) + 1
            words[place] = str(min(int(words[place]), largest))
        elif not (option == "--backbone.width" and "--backbone.match_parameters" in words):
            words += [option, str(largest)]
    done = command(*words)
    assert done.returncode == 0 or "cannot render" in done.stderr, f"{words}\n{done.stdout}{done.stderr}"


def smaller(block: CodeBlock) -> str:
    """A block's text with the replacements of SMALLER, at the same line numbers."""
    text = block.text
    for there, here in SMALLER.items():
        text = text.replace(there, here)
    return "\n" * (block.line - 1) + text if block.language == "python" else text


@pytest.mark.parametrize("page", [page for page in TUTORIALS if page.stem not in LONG], ids=lambda page: page.stem)
def test_tutorial_runs_without_commands_that_start_processes(
    page: Path, folder: Path, inline_cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decision_rnn.evaluation.evaluate.available_cores", lambda: 1)
    run_page(page, inline_cli, leave_out=PROCESSES)


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorial_runs_with_all_commands(page: Path, folder: Path, small_cli: Command, inline_cli: Command) -> None:
    """`inline_cli` gives the Python blocks the small data too."""
    run_page(page, small_cli)


@pytest.mark.slow
def test_memory_is_significant_where_a_log_needs_it(folder: Path) -> None:
    """On the logs of the page, with five seeds of two of its variants."""
    page = ROOT / "docs" / "tutorials" / "does-my-task-need-memory.md"
    (block,) = (block.text for block in code_blocks(page) if "def cart(" in block.text)
    exec(block, {"decision_rnn": decision_rnn})
    variants = {"history-1": {"backbone": "mlp"}, "history-2": {"backbone": {"name": "conv", "kernel": 2}}}
    options = {"training": {"learning_rate": 3e-3}, "backbone": {"name": "mlp", "width": 32, "layers": 1}}
    significant = {}
    for log in ("hidden", "plain"):
        comparison = decision_rnn.compare(
            f"local/{log}-train",
            variants=variants,
            controls="none",
            seeds=5,
            steps=200,
            validation=f"local/{log}-held-out",
            output=log,
            progress=False,
            **options,
        )
        significant[log] = {row["variant"]: row["significant"] for row in comparison.table() if "significant" in row}
    assert [significant[log]["history-2"] for log in ("hidden", "plain")] == [True, False]


@pytest.mark.slow
def test_readme_commands_and_code_run(folder: Path, small_cli: Command, inline_cli: Command) -> None:
    for block in code_blocks(ROOT / "README.md"):
        if block.language == "bash":
            lines = [line for line in block.text.splitlines() if line.startswith("decision-rnn ")]
            assert len(lines) == 5
            for line in lines:
                run_command(shlex.split(line, comments=True)[1:], small_cli)
        else:
            exec(smaller(block), {})


def test_every_text_in_smaller_occurs_in_a_tutorial() -> None:
    text = "".join(page.read_text() for page in TUTORIALS)
    assert [there for there in SMALLER if there not in text] == []
