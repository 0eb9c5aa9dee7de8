"""Errors and the exit codes of the command line."""

import errno

import pytest

from decision_rnn.cli.main import main
from decision_rnn.utils.errors import EnvironmentFailure, InputError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("seed is -1:\nit must be at least 0"), 2),
        (EnvironmentFailure("a process that plays episodes died"), 1),
        (OSError(errno.ENOSPC, "No space left on device"), 1),
        (PermissionError(errno.EACCES, "Permission denied", "a"), 2),
        (MemoryError(), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_command_line_exits_with_the_code_of_the_error(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(name: str, words: list[str]) -> None:
        raise error

    monkeypatch.setattr("decision_rnn.cli.parser.run_command", run)
    assert main(["report"]) == code
    printed = capsys.readouterr().err
    assert printed.startswith("decision-rnn: ")
    assert printed.count("\n") == 1
