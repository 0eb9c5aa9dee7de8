"""`decision-rnn evaluate`: the scores of a run's last checkpoint, or of another agent that has a name."""

from collections.abc import Sequence
from dataclasses import fields

from jsonargparse import ArgumentParser

from decision_rnn.cli.help import arrange
from decision_rnn.cli.words import command_parser, parse_command
from decision_rnn.config import EvaluationConfig
from decision_rnn.errors import InputError
from decision_rnn.parsing import check_numbers

NEEDED = ("run", "target_returns", "episodes", "state", "window", "processes")


def run(arguments: Sequence[str]) -> None:
    """Evaluate an agent as it was configured, but for what the command line says; InputError for unusable input."""
    words = parser()
    first = parse_command(words, arguments)
    if first.processes is not None and first.processes < 1:
        raise InputError(f"command line: --processes is {first.processes}: it must be at least 1")
    from decision_rnn.api.agents import load_agent, run_folder  # here, lest `--help` wait for them
    from decision_rnn.api.run import Run, evaluate

    folder = run_folder(first.run)
    agent = load_agent(first.run) if folder is None else Run(folder)
    words.set_defaults({f.name: getattr(agent.config.evaluation, f.name) for f in fields(EvaluationConfig)})
    command = parse_command(words, arguments)
    check_numbers(command)
    settings = {f.name: command[f.name] for f in fields(EvaluationConfig) if f.name != "target_returns"}
    if not settings["episodes"]:
        raise InputError("episodes is 0: name how many to play for each target return, such as --episodes 100")
    result = evaluate(agent, command.target_returns, processes=command.processes, **settings)
    print(result)
    if isinstance(agent, Run):
        print(f"written to {agent.result_file(result)}")


def parser() -> ArgumentParser:
    """Of the command."""
    parser = command_parser("decision-rnn evaluate")
    parser.add_argument("run", type=str, help="the run's folder, or another agent: a folder, or an id of the hub")
    parser.add_class_arguments(EvaluationConfig)
    help_processes = "that play at a time, to the same result (default: one for every core)"
    parser.add_argument("--processes", type=int | None, help=help_processes)
    return arrange(parser, NEEDED)
