"""The command line, `decision-rnn COMMAND ...`: each command is a module of this folder."""

import errno
import importlib
import os
import sys
from collections.abc import Sequence

from decision_rnn import __version__
from decision_rnn.errors import InputError, SystemFault, did_you_mean
from decision_rnn.machine import limit_spinning
from decision_rnn.messages import quiet

QUIET = "--quiet"

USAGE = """usage: decision-rnn COMMAND ...

  data ACTION       list, info, make, verify, download or export datasets
  train DATASET     train an agent, evaluate it and print its normalised scores
  evaluate RUN      evaluate the last checkpoint of a run
  compare DATASETS  train variants over datasets and seeds, and print their tables
  report FOLDER     write a comparison as one HTML page
  play AGENT        watch an agent in its environment, in a window or as a video
  export RUN        write an agent as a file that acts without torch
  package RUN       write an agent as one folder to hand on, and to the Hugging Face Hub
  check MIXER       put a layer under the law of backbones: a name, or module.Class
  bench NAME        measure speed: train, rollout, data, scan, backbones or deploy
  completion SHELL  print a script by which your shell completes all this

  --quiet           with any command: results and errors alone, no bar, no remark
  --version         the version

`decision-rnn COMMAND --help` shows a command's options."""

COMMANDS = (
    "data",
    "train",
    "evaluate",
    "compare",
    "report",
    "play",
    "export",
    "package",
    "check",
    "bench",
    "completion",
)
"""Modules of this folder, imported on demand: importing torch takes seconds, and `--help` does not need it."""

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of file access that are a fault of the machine: a full disk, a quota, a file too large."""
FORBIDDEN = {errno.EROFS, errno.EACCES, errno.ENAMETOOLONG}
"""Errors of file access that come from the path: a read-only file system, permissions, a name that is too long."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for an InputError, 1 for a SystemFault, 130 for Ctrl-C."""
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
    try:
        if name not in COMMANDS:
            hint = did_you_mean(name, COMMANDS)
            raise InputError(f"unknown command {name!r}: {hint}known are {', '.join(COMMANDS)}")
        limit_spinning()  # before torch is loaded
        with quiet(silent):
            return importlib.import_module(f"decision_rnn.cli.{name}").run(rest) or 0
    except InputError as error:
        return _fail(str(error), 2)
    except SystemFault as error:
        return _fail(str(error), 1)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in FULL | FORBIDDEN:
            raise
        what = "access" if error.errno in (errno.EACCES, errno.ENAMETOOLONG) else "write"  # they may come from a read
        where = f" {error.filename}" if error.filename else ""
        message = f"cannot {what}{where}: {error.strerror}; what was written before is intact"
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
        return _fail(str(interrupt) or "interrupted; what was written is intact, and --resume continues a run", 130)


def _fail(message: str, code: int) -> int:
    """Print a message as one line on stderr and return the exit code."""
    print(f"decision-rnn: {' '.join(message.splitlines())}", file=sys.stderr)
    return code
