"""The command line: `decision-rnn data | train | evaluate | compare | bench`."""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from decision_rnn.errors import InputError

USAGE = """usage: decision-rnn COMMAND ...

  data ACTION       list, info, make, verify, download or export datasets
  train DATASET     train an agent, evaluate it and print its normalised scores
  evaluate RUN      evaluate the last checkpoint of a run
  compare DATASET   train several backbones over several seeds and print one table
  bench NAME        measure speed: train, rollout, data, scan or backbones

`decision-rnn COMMAND --help` shows a command's options."""

DISK_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
"""What any write may meet, and the user can mend: a full disk, a quota, a folder that may not be written."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, or 2 where the input cannot be used."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    name, *rest = arguments
    sys.path.append(os.getcwd())  # where a backbone of the user's own may lie
    try:
        if name not in COMMANDS:
            raise InputError(f"unknown command {name!r}: known are {', '.join(COMMANDS)}")
        COMMANDS[name](rest)
    except InputError as error:
        print(f"decision-rnn: {error}", file=sys.stderr)
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
    except KeyboardInterrupt:
        print("decision-rnn: interrupted; what was written is intact, and a run goes on by --resume", file=sys.stderr)
        return 130
    return 0


# Each command imports what it needs when it runs: torch and MuJoCo take seconds that `--help` need not wait for.


def _train(arguments: list[str]) -> None:
    from jsonargparse import ArgumentParser

    from decision_rnn.config import parse_run
    from decision_rnn.data.catalog import resolve
    from decision_rnn.evaluation.evaluate import evaluate
    from decision_rnn.evaluation.report import format_result
    from decision_rnn.evaluation.results import write_result
    from decision_rnn.training.loop import train

    def options(parser: ArgumentParser) -> None:
        parser.add_argument(
            "--output", type=Path | None, help="the run's folder (default: runs/DATASET-BACKBONE-seedN)"
        )
        parser.add_argument("--resume", action="store_true", help="go on from the run's last checkpoint")

    config, command = parse_run("decision-rnn train", arguments, options)
    dataset = resolve(config.dataset).name.replace("/", "-")
    run = command.output or Path("runs") / f"{dataset}-{config.backbone.name}-seed{config.seed}"
    trained = train(config, run, command.resume)
    if config.evaluation.episodes == 0:
        print(f"no evaluation was asked for; `decision-rnn evaluate {run} --episodes 100` makes one")
        return
    result = evaluate(trained, config.evaluation)
    path = write_result(run, result)
    print(format_result(result))
    print(f"written to {path}")


def _evaluate(arguments: list[str]) -> None:
    from dataclasses import fields

    from jsonargparse import ArgumentParser

    from decision_rnn.checkpoint import last_checkpoint, load_agent
    from decision_rnn.config import EvaluationConfig, parse
    from decision_rnn.evaluation.evaluate import evaluate
    from decision_rnn.evaluation.report import format_result
    from decision_rnn.evaluation.results import write_result

    parser = ArgumentParser(prog="decision-rnn evaluate", exit_on_error=False)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_class_arguments(EvaluationConfig)
    trained = load_agent(last_checkpoint(parse(parser, arguments).run))
    parser.set_defaults({f.name: getattr(trained.config.evaluation, f.name) for f in fields(EvaluationConfig)})
    command = parse(parser, arguments)
    settings = EvaluationConfig(**{f.name: command[f.name] for f in fields(EvaluationConfig)})
    result = evaluate(trained, settings)
    path = write_result(command.run, result)
    print(format_result(result))
    print(f"written to {path}")


def _compare(arguments: list[str]) -> None:
    from jsonargparse import ArgumentParser

    from decision_rnn.comparison.compare import compare
    from decision_rnn.comparison.table import format_comparison
    from decision_rnn.comparison.variants import Variant
    from decision_rnn.config import parse_run
    from decision_rnn.data.catalog import resolve

    def options(parser: ArgumentParser) -> None:
        parser.add_argument("--backbones", type=str, default="mingru,minlstm,lru,transformer", help="comma-separated")
        parser.add_argument("--seeds", type=int, default=3, help="seeds per backbone, from `seed` on")
        parser.add_argument("--jobs", type=int, default=1, help="runs trained at the same time")
        parser.add_argument("--output", type=Path | None, help="folder of the runs (default: runs/compare-DATASET)")

    first, command = parse_run("decision-rnn compare", arguments, options)
    if command.seeds < 1 or command.jobs < 1:
        raise InputError("command line: --seeds and --jobs must be at least 1")
    names = [name.strip() for name in command.backbones.split(",")]
    variants = [
        Variant(name, parse_run("decision-rnn compare", arguments, options, backbone=name)[0]) for name in names
    ]
    output = command.output or Path("runs") / f"compare-{resolve(first.dataset).name.replace('/', '-')}"
    seeds = range(first.seed, first.seed + command.seeds)
    comparison = compare(variants, seeds, output, command.jobs)
    print(format_comparison(comparison))
    print(f"written to {output / 'comparison.json'} and {output / 'comparison.md'}")
    if comparison["failed"]:
        raise InputError(f"{len(comparison['failed'])} of the runs failed, as said above: the same command tries again")


def _bench(arguments: list[str]) -> None:
    from jsonargparse import ArgumentParser

    from decision_rnn.bench import BENCHES, check_destination, format_rows, write_rows
    from decision_rnn.config import parse

    if not arguments or arguments[0] not in BENCHES:
        if arguments[:1] in (["-h"], ["--help"]):
            print(f"usage: decision-rnn bench NAME ...; NAME is one of {', '.join(BENCHES)}")
            return
        named = f"unknown benchmark {arguments[0]!r}" if arguments else "no benchmark was named"
        raise InputError(f"{named}: known are {', '.join(BENCHES)}")
    name, *rest = arguments
    parser = ArgumentParser(prog=f"decision-rnn bench {name}", exit_on_error=False)
    keys = parser.add_function_arguments(BENCHES[name])
    parser.add_argument("--json", type=Path | None, help="also write the rows to this file")
    command = parse(parser, rest)
    if command.json:
        check_destination(command.json)
    rows = BENCHES[name](**{key: command[key] for key in keys})
    print(format_rows(rows))
    if command.json:
        write_rows(command.json, rows)


def _data(arguments: list[str]) -> None:
    from decision_rnn.cli.data import data

    data(arguments)


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "data": _data,
    "train": _train,
    "evaluate": _evaluate,
    "compare": _compare,
    "bench": _bench,
}
