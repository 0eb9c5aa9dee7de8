"""The command line, `decision-rnn COMMAND ...`: each command is a module of this folder."""

import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence

from pydantic import ValidationError

from decision_rnn import __version__
from decision_rnn.utils.errors import FULL, EnvironmentFailure, InputError, did_you_mean
from decision_rnn.utils.messages import quiet
from decision_rnn.utils.parsing import describe_error

COMMANDS = {
    "data": "list, make, inspect, import, export or remove datasets",
    "record": "play a policy or an agent, and write its episodes as a dataset",
    "train": "train an agent, evaluate it and print its normalised scores",
    "evaluate": "evaluate the last checkpoint of a run",
    "compare": "train variants over datasets and seeds, and print their tables",
    "report": "write a comparison as one HTML page",
    "play": "watch an agent in its environment, in a window, a browser or as a video",
    "export": "write an agent as a file that acts without torch",
    "package": "write an agent as one folder to share, and push it to the Hugging Face Hub",
    "completion": "print a script that completes commands and options in your shell",
}
"""Modules of this folder, imported on demand, since torch takes seconds."""

USAGE = """usage: decision-rnn COMMAND ...

{}

  --quiet      with any command: print only results and errors
  --version    print the version

`decision-rnn COMMAND --help` shows a command's options.""".format(
    "\n".join(f"  {name:<12} {text}" for name, text in COMMANDS.items())
)

FORBIDDEN = {errno.EROFS, errno.EACCES, errno.ENAMETOOLONG}
"""Errors of file access that come from the path: a read-only file system, permissions, a name that is too long."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        The exit code: 0; 2 for invalid input; 1 for a failure of the machine, such as a full disk; 130 for Ctrl-C and,
        in `train` and `record`, SIGTERM.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    silent = "--quiet" in arguments
    name, *rest = [word for word in arguments if word != "--quiet"] or [""]
    if name in ("", "-h", "--help"):
        print(USAGE)
        return 0 if name else 2
    if name == "--version":
        print(f"decision-rnn {__version__}")
        return 0
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # in an ASCII encoding, which has no ±, it is printed as ?
    try:
        if name not in COMMANDS:
            raise InputError(
                f"unknown command {name!r}. {did_you_mean(name, COMMANDS)}Known are {', '.join(COMMANDS)}."
            )
        # libgomp's threads, which torch loads, spin for milliseconds while they wait for each other: with other work
        # on the cores, a training step takes ten times as long.
        if "OMP_WAIT_POLICY" not in os.environ:
            os.environ.setdefault("GOMP_SPINCOUNT", "1000")
        with quiet(silent):
            return importlib.import_module(f"decision_rnn.cli.{name}").run(rest) or 0
    except InputError as error:
        return _fail(str(error), 2)
    except ValidationError as error:
        return _fail(describe_error(error), 2)
    except EnvironmentFailure as error:
        return _fail(str(error), 1)
    except ModuleNotFoundError as error:
        return _fail(f"`decision-rnn {name}` needs the package {error.name}, which is not installed", 2)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in FULL | FORBIDDEN:
            raise
        return _fail(f"cannot access {error.filename or 'a file'}: {error.strerror}", 1 if error.errno in FULL else 2)
    except (MemoryError, RuntimeError) as error:
        if not (isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error)):
            raise
        keys = "training.batch_size, training.context, backbone.width or backbone.layers"
        return _fail(f"not enough memory. Lower {keys}.", 1)
    except KeyboardInterrupt as interrupt:
        return _fail(str(interrupt) or "interrupted", 130)


def _fail(message: str, code: int) -> int:
    print(f"decision-rnn: {' '.join(message.splitlines())}", file=sys.stderr)
    return code
