"""`decision-rnn evaluate`: the scores of a run's last checkpoint, or of a policy that was exported."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from decision_rnn.checkpoint import last_checkpoint, load_agent
from decision_rnn.cli.arguments import command_parser, parse_command
from decision_rnn.config import EvaluationConfig
from decision_rnn.errors import InputError
from decision_rnn.evaluation.evaluate import Subject, evaluate, evaluate_actor
from decision_rnn.evaluation.report import format_result
from decision_rnn.evaluation.results import write_result
from decision_rnn.parsing import check_numbers


def run(arguments: Sequence[str]) -> None:
    """Evaluate a run, or an exported policy, as it was configured, but for what the command line says; InputError for
    what cannot be used."""
    parser = command_parser("decision-rnn evaluate")
    parser.add_argument(
        "run", type=Path, help="the run's folder, or the file of an exported policy, such as policy.onnx"
    )
    parser.add_class_arguments(EvaluationConfig)
    help_processes = "that play at a time, to the same result (default: one for every core)"
    parser.add_argument("--processes", type=int | None, help=help_processes)
    first = parse_command(parser, arguments)
    if first.processes is not None and first.processes < 1:
        raise InputError(f"command line: --processes is {first.processes}: it must be at least 1")
    exported = first.run.suffix == ".onnx"
    trained = _policy(first.run) if exported else load_agent(last_checkpoint(first.run))
    parser.set_defaults({f.name: getattr(trained.config.evaluation, f.name) for f in fields(EvaluationConfig)})
    if exported:
        parser.set_defaults({"state": "carry"})  # all that a policy can do, however its agent was evaluated
    command = parse_command(parser, arguments)
    check_numbers(command)
    settings = EvaluationConfig(**{f.name: command[f.name] for f in fields(EvaluationConfig)})
    if not settings.episodes:
        raise InputError("episodes is 0: name how many to play for each target return, such as --episodes 100")
    if isinstance(trained, Subject):
        if settings.state != "carry":
            raise InputError(f"{command.run} acts by a carried state: evaluate its run for --state {settings.state}")
        result = evaluate_actor(trained, settings, command.processes)
        path = write_result(command.run.parent, result, f"{command.run.stem}-results")
    else:
        result = evaluate(trained, settings, command.processes)
        path = write_result(command.run, result)
    print(format_result(result))
    print(f"written to {path}")


def _policy(path: Path) -> Subject:
    """The policy of a file; onnxruntime, which acts with it, is imported here alone."""
    try:
        from decision_rnn.deploy.actor import load_subject
    except ModuleNotFoundError as error:
        raise InputError(
            f"{path} is acted with by the package {error.name}, which is not installed: pip install "
            "'decision-rnn[onnx]'"
        ) from None
    return load_subject(path)
