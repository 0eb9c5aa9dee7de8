"""The command line: `decision-rnn data | train | evaluate | play | compare | report | package | bench`."""

import errno
import importlib
import os
import sys
from collections.abc import Sequence

from decision_rnn.errors import InputError, did_you_mean

USAGE = """usage: decision-rnn COMMAND ...

  data ACTION       list, info, make, verify, download or export datasets
  train DATASET     train an agent, evaluate it and print its normalised scores
  evaluate AGENT    score an agent: the last checkpoint of a run, pretrained/hopper-medium, org/name on the hub
  play AGENT        watch an agent in a window, or write an mp4
  compare DATASETS  train variants over datasets and seeds, and print their tables
  report FOLDER     write a comparison as one HTML page
  package RUN       write an agent with its model card into a folder, and push it to the hub
  bench NAME        measure speed: train, rollout, data, scan or backbones

`decision-rnn COMMAND --help` shows a command's options."""

COMMANDS = ("data", "train", "evaluate", "play", "compare", "report", "package", "bench")
"""Modules of this folder, imported when they are asked for: torch takes seconds that `--help` need not wait for."""

DISK_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
"""What any write may meet, and the user can mend: a full disk, a quota, a folder that may not be written."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 where the input cannot be used, or what the command returns."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    name, *rest = arguments
    try:
        if name not in COMMANDS:
            hint = did_you_mean(name, COMMANDS)
            raise InputError(f"unknown command {name!r}: {hint}known are {', '.join(COMMANDS)}")
        return importlib.import_module(f"decision_rnn.cli.{name}").run(rest) or 0
    except InputError as error:
        print(f"decision-rnn: {' '.join(str(error).splitlines())}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in DISK_FAULTS:
            raise
        where = f" {error.filename}" if error.filename else ""
        print(
            f"decision-rnn: cannot write{where}: {error.strerror}; what was written before is intact", file=sys.stderr
        )
        return 2
    except (MemoryError, RuntimeError) as error:
        if not (isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error)):
            raise
        print(
            "decision-rnn: there is not enough memory: lower training.batch_size, training.context, backbone.width or "
            "backbone.layers; what was written before is intact",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print("decision-rnn: interrupted; what was written is intact, and a run goes on by --resume", file=sys.stderr)
        return 130
