"""`decision-rnn evaluate`: the scores of a run's last checkpoint."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from decision_rnn.checkpoint import last_checkpoint, load_agent
from decision_rnn.cli.arguments import command_parser, parse_command
from decision_rnn.config import EvaluationConfig
from decision_rnn.errors import InputError
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.report import format_result
from decision_rnn.evaluation.results import write_result
from decision_rnn.parsing import check_numbers


def run(arguments: Sequence[str]) -> None:
    """Evaluate a run as it was configured, but for what the command line says; InputError for what cannot be used."""
    parser = command_parser("decision-rnn evaluate")
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_class_arguments(EvaluationConfig)
    parser.add_argument("--processes", type=int | None, help="that play at a time, to the same digits (default: cores)")
    trained = load_agent(last_checkpoint(parse_command(parser, arguments).run))
    parser.set_defaults({f.name: getattr(trained.config.evaluation, f.name) for f in fields(EvaluationConfig)})
    command = parse_command(parser, arguments)
    check_numbers(command)
    settings = EvaluationConfig(**{f.name: command[f.name] for f in fields(EvaluationConfig)})
    if not settings.episodes:
        raise InputError("episodes is 0: name how many to play for each target return, such as --episodes 100")
    if command.processes is not None and command.processes < 1:
        raise InputError("command line: --processes must be at least 1")
    result = evaluate(trained, settings, command.processes)
    path = write_result(command.run, result)
    print(format_result(result))
    print(f"written to {path}")
