"""The command line, `decision-rnn COMMAND ...`: each command is a module of this folder."""

import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence

from decision_rnn import __version__
from decision_rnn.utils.errors import FULL, InputError, SystemFault, did_you_mean
from decision_rnn.utils.machine import limit_spinning
from decision_rnn.utils.messages import quiet

QUIET = "--quiet"

COMMANDS = {
    "data": "data ACTION       list, info, make, verify, download, import, export, merge or remove datasets",
    "record": "record ENV        play a policy or an agent, and write its episodes as a dataset",
    "train": "train DATASET     train an agent, evaluate it and print its normalised scores",
    "evaluate": "evaluate RUN      evaluate the last checkpoint of a run",
    "compare": "compare DATASETS  train variants over datasets and seeds, and print their tables",
    "report": "report FOLDER     write a comparison as one HTML page",
    "play": "play AGENT        watch an agent in its environment, in a window or as a video",
    "export": "export RUN        write an agent as a file that acts without torch",
    "package": "package RUN       write an agent as one folder to share, and push it to the Hugging Face Hub",
    "check": "check MIXER       check a layer against the contract of backbones: a name, or module.Class",
    "completion": "completion SHELL  print a script that completes commands and options in your shell",
}
"""Modules of this folder, imported on demand: importing torch takes seconds, and `--help` does not need it."""

USAGE = """usage: decision-rnn COMMAND ...

  {}

  --quiet           with any command: print only results and errors
  --version         print the version

`decision-rnn COMMAND --help` shows a command's options.""".format("\n  ".join(COMMANDS.values()))

FORBIDDEN = {errno.EROFS, errno.EACCES, errno.ENAMETOOLONG}
"""Errors of file access that come from the path: a read-only file system, permissions, a name that is too long."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for an InputError, 1 for a SystemFault, 130 for Ctrl-C and, in
    `train` and `record`, SIGTERM."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    silent = QUIET in arguments
    arguments = [word for word in arguments if word != QUIET]
    if arguments[:1] == ["--version"]:
        print(f"decision-rnn {__version__}")
        return 0
    name, *rest = arguments or [""]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # in an ASCII encoding, which has no ±, it is printed as ?
    try:
        if name not in COMMANDS:
            hint = did_you_mean(name, COMMANDS)
            raise InputError(f"unknown command {name!r}: {hint}known are {', '.join(COMMANDS)}")
        if not _has_working_folder():
            raise InputError("the working folder has been deleted: change into one that exists")
        limit_spinning()  # before torch is loaded
        with quiet(silent):
            return importlib.import_module(f"decision_rnn.cli.{name}").run(rest) or 0
    except (InputError, SystemFault) as error:
        return _fail(str(error), 2 if isinstance(error, InputError) else 1)
    except ModuleNotFoundError as error:
        return _fail(
            f"`decision-rnn {name}` needs the package {error.name}, which is not installed: `pip install decision-rnn` "
            "installs all that it needs; to play an exported policy without torch, use decision_rnn.deploy in Python",
            2,
        )
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in FULL | FORBIDDEN:
            raise
        message = f"cannot access {error.filename or 'a file'}: {error.strerror}; what was written before is intact"
        return _fail(message, 1 if error.errno in FULL else 2)
    except (MemoryError, RuntimeError) as error:
        if not (isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error)):
            raise
        return _fail(
            "there is not enough memory: lower training.batch_size, training.context, backbone.width or "
            "backbone.layers; what was written before is intact",
            1,
        )
    except KeyboardInterrupt as interrupt:
        goes_on = "; the same command goes on where it stopped" if name == "compare" else ""
        return _fail(str(interrupt) or f"interrupted; the files that were written are complete{goes_on}", 130)


def _has_working_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _fail(message: str, code: int) -> int:
    print(f"decision-rnn: {' '.join(message.splitlines())}", file=sys.stderr)
    return code
