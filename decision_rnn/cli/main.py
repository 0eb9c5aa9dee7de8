"""The command line, `decision-rnn COMMAND ...`: exit codes, and what all commands have in common."""

import importlib
import os
import re
import sys
from collections.abc import Sequence

from pydantic import ValidationError

from decision_rnn import __version__
from decision_rnn.cli import COMMANDS
from decision_rnn.utils.errors import FULL, InputError, MachineError, did_you_mean, one_line
from decision_rnn.utils.interruption import handle_signals
from decision_rnn.utils.messages import quiet
from decision_rnn.utils.parsing import describe_error

USAGE = """usage: decision-rnn COMMAND ...

{}

  --quiet      with any command: print only results and errors
  --version    print the version

`decision-rnn COMMAND --help` shows a command's options.""".format(
    "\n".join(f"  {name:<12} {text}" for name, text in COMMANDS.items())
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        The exit code: 0; 2 for invalid input; 1 for a failure of the machine, such as a full disk; 130 for Ctrl-C,
        SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    name, *words = [word for word in arguments if word != "--quiet"] or [""]
    if name in ("", "-h", "--help"):
        print(USAGE)
        return 0 if name else 2
    if name == "--version":
        print(f"decision-rnn {__version__}")
        return 0
    # libgomp's threads, which torch loads, spin for milliseconds while they wait for each other: with other work on the
    # cores, a training step takes ten times as long.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        if name not in COMMANDS:
            raise InputError(f"unknown command {name!r}. {did_you_mean(name, COMMANDS)}Known: {', '.join(COMMANDS)}.")
        # The commands are imported on demand, since torch takes seconds.
        with handle_signals(), quiet("--quiet" in arguments):
            return importlib.import_module("decision_rnn.cli.parser").run_command(name, words)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Exception, KeyboardInterrupt) as error:
        message, code = describe_failure(error, name)
        print(f"decision-rnn: {' '.join(message.splitlines())}", file=sys.stderr)
        return code


def describe_failure(error: BaseException, command: str) -> tuple[str, int]:
    """The message and the exit code for an error with a cause outside the program; any other is raised again."""
    out_of_memory = isinstance(error, MemoryError) or re.search("allocate memory|out of memory", str(error))
    match error:
        case InputError():
            return str(error), 2
        case ValidationError():
            return describe_error(error), 2
        case MachineError():
            return str(error), 1
        case ModuleNotFoundError():
            return f"`decision-rnn {command}` needs the package {error.name}, which is not installed", 2
        case OSError() if error.filename or error.errno in FULL:
            code = 1 if error.errno in FULL else 2
            return f"cannot access {error.filename or 'a file'}: {error.strerror}", code
        case MemoryError() | RuntimeError() if out_of_memory:
            keys = "training.batch_size, training.context, backbone.width or backbone.layers"
            return f"not enough memory ({one_line(error)}). Lower {keys}.", 1
        case KeyboardInterrupt():
            return str(error) or "interrupted", 130
    raise error
