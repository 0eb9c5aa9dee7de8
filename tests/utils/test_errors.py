"""Errors and the exit codes of the command line."""

import errno
from pathlib import Path

import pytest

from decision_rnn.cli.main import main
from decision_rnn.utils.errors import InputError, MachineError, importing, writing


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("seed is -1:\nit must be at least 0"), 2),
        (MachineError("a process that plays episodes died"), 1),
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
    assert main(["export"]) == code
    printed = capsys.readouterr().err
    assert printed.startswith("decision-rnn: ")
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "kind", "name"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "layers.py"), InputError, "layers.py"),
        (OSError("the disk is gone"), InputError, "the disk is gone"),
        (OSError(errno.ENOSPC, "No space left on device"), MachineError, "No space"),
    ],
)
def test_error_in_writing_names_the_file_and_its_cause(error: OSError, kind: type[Exception], name: str) -> None:
    with pytest.raises(kind, match=f"runs/a.*{name}"), writing(Path("runs/a")):
        raise error


def test_missing_package_is_to_be_installed_and_a_broken_one_upgraded() -> None:
    with pytest.raises(InputError, match=r"a video.*no_such_package.*\[video\]"), importing("a video", "video"):
        import no_such_package  # noqa: F401
    with pytest.raises(InputError, match=r"a video.*libav\.so.*--upgrade"), importing("a video", "video"):
        raise ImportError("libav.so: cannot open shared object file")
