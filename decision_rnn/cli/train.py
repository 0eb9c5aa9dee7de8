"""`decision-rnn train`: make one run, from data to scores."""

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser

from decision_rnn.cli.arguments import default_parser, parse_run
from decision_rnn.errors import InputError

PROGRAM = "decision-rnn train"
NEEDED = ("dataset", "backbone", "training.steps", "seed", "output", "resume")


def run(arguments: Sequence[str]) -> None:
    """Train an agent and, unless `evaluation.episodes` is 0, evaluate it; raises InputError for invalid input."""
    config, command = parse_run(PROGRAM, arguments, _options, needed=NEEDED)
    if command.processes is not None and command.processes < 1:
        raise InputError(f"command line: --processes is {command.processes}: it must be at least 1")
    from decision_rnn.api.run import train_run
    from decision_rnn.evaluation.results import result_file
    from decision_rnn.evaluation.stored import evaluate_once

    trained = train_run(config, command.output, command.resume, processes=command.processes)
    if not config.evaluation.episodes:
        print(f"trained in {trained.folder}, and not evaluated: evaluation.episodes is 0")
        return
    result = evaluate_once(trained.folder, trained.agent, config.evaluation, command.processes)
    print(result)
    print(f"written to {result_file(trained.folder, result)}")


def parser() -> ArgumentParser:
    """The parser of the command, with the default backbone."""
    return default_parser(PROGRAM, _options, NEEDED)


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--output", type=Path | None, help="the run's folder (default: runs/DATASET-BACKBONE-seedN)")
    parser.add_argument("--resume", action="store_true", help="resume from the run's last checkpoint")
    parser.add_argument("--processes", type=int | None, help="processes that play episodes (default: one per core)")
