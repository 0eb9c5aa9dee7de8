"""`decision-rnn evaluate`: the scores of an agent.

Those of a run or of one of its checkpoints are written into the run's folder. Those of any other agent, which may lie
where nobody may write, are printed, and written where `--output` says.
"""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from decision_rnn.checkpoint import load_agent, run_of
from decision_rnn.cli.arguments import command_parser, parse_command
from decision_rnn.config import EvaluationConfig
from decision_rnn.deploy.hub import find_agent
from decision_rnn.errors import InputError
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.report import format_result
from decision_rnn.evaluation.results import write_result
from decision_rnn.parsing import check_numbers


def run(arguments: Sequence[str]) -> None:
    """Evaluate an agent as its run says, but for what the command line does; InputError for what cannot be used."""
    parser = command_parser("decision-rnn evaluate")
    parser.add_argument("run", type=str, help="a run's or packaged agent's folder, pretrained/NAME, or org/name")
    parser.add_class_arguments(EvaluationConfig)
    parser.add_argument("--output", type=Path | None, help="folder to write the result into (default: that of the run)")
    help_processes = "that play at a time, to the same result (default: one for every core)"
    parser.add_argument("--processes", type=int | None, help=help_processes)
    first = parse_command(parser, arguments)
    if first.processes is not None and first.processes < 1:
        raise InputError(f"command line: --processes is {first.processes}: it must be at least 1")
    folder = find_agent(first.run)
    trained = load_agent(folder)
    parser.set_defaults({f.name: getattr(trained.config.evaluation, f.name) for f in fields(EvaluationConfig)})
    command = parse_command(parser, arguments)
    check_numbers(command)
    settings = EvaluationConfig(**{f.name: command[f.name] for f in fields(EvaluationConfig)})
    if not settings.episodes:
        raise InputError("episodes is 0: name how many to play for each target return, such as --episodes 100")
    result = evaluate(trained, settings, command.processes)
    output = command.output or run_of(folder)
    path = None if output is None else write_result(output, result)
    print(format_result(result))
    print(f"written to {path}" if path else f"not written: {command.run} is no run, so name a folder by --output")
