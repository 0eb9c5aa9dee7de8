"""`decision-rnn evaluate`: evaluate an agent.

The result of a run or of one of its checkpoints is written to the run's folder. The result of any other agent, whose
folder may be read-only, is printed, and written only to the folder given by `--output`.
"""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from jsonargparse import ArgumentParser

from decision_rnn.cli.help import arrange
from decision_rnn.cli.words import command_parser, parse_command
from decision_rnn.config import EvaluationConfig
from decision_rnn.errors import InputError
from decision_rnn.parsing import check_numbers, parse

NEEDED = ("run", "target_returns", "episodes", "state", "window", "processes")
OF_THE_RUN = {"episodes": "Episodes per target return.", "state": "", "window": "", "seed": ""}
"""Options that default to the run's settings, and their help if EvaluationConfig's does not apply."""


def run(arguments: Sequence[str]) -> None:
    """Evaluate an agent, overriding its settings with the command line's; raises InputError for invalid input."""
    words = parser()
    command = parse_command(words, arguments)
    check_numbers(command)
    if command.processes is not None and command.processes < 1:
        raise InputError(f"command line: --processes is {command.processes}: it must be at least 1")
    given = parse(words, arguments, defaults=False)  # what is left out keeps the run's setting
    settings = {f.name: given[f.name] for f in fields(EvaluationConfig) if f.name in given}
    from decision_rnn.api.agents import load_subject  # here: slow, and not needed for `--help`
    from decision_rnn.api.run import evaluate
    from decision_rnn.evaluation.results import result_file

    subject, run_folder = load_subject(command.run)
    if not settings.get("episodes", subject.config.evaluation.episodes):
        raise InputError("episodes is 0: name how many to play for each target return, such as --episodes 100")
    output = command.output or run_folder
    extra = {"rtg_cap": command.rtg_cap, "processes": command.processes}
    result = evaluate(subject, settings.pop("target_returns", None), output=output, **extra, **settings)
    print(result)
    if output is None:
        print(f"not written: {command.run} is no run, so name a folder with --output")
    else:
        print(f"written to {result_file(output, result)}")


def parser() -> ArgumentParser:
    """The parser of the command."""
    parser = command_parser("decision-rnn evaluate")
    parser.add_argument(
        "run", type=str, help="a run's or packaged agent's folder, pretrained/NAME, org/name of the hub, or policy.onnx"
    )
    parser.add_class_arguments(EvaluationConfig)
    for action in parser._actions:
        if action.dest in OF_THE_RUN:  # their defaults are known only once the run is read
            action.help = f"{OF_THE_RUN[action.dest] or action.help} (default: the run's)"
    help_limit = "in place of the run's condition.rtg_cap, from 0 (none) to 1; above 0 it needs the run's data"
    parser.add_argument("--rtg_cap", type=float | None, help=help_limit)
    parser.add_argument("--output", type=Path | None, help="folder to write the result into (default: that of the run)")
    help_processes = "number of processes that play; the result does not depend on it (default: one per core)"
    parser.add_argument("--processes", type=int | None, help=help_processes)
    return arrange(parser, NEEDED)
