"""`decision-rnn evaluate`: evaluate an agent."""

from collections.abc import Sequence
from pathlib import Path

from decision_rnn.cli.parser import CommandParser, metavar_of, parse_as
from decision_rnn.config import EvaluationConfig
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.utils.parsing import PositiveInt, options_of

OPTIONS = {name: option for name, option in options_of(EvaluationConfig).items() if name != "checkpoint_episodes"}


def run(arguments: Sequence[str]) -> None:
    """Evaluate an agent, overriding its settings with the command line's; raises InputError for invalid input."""
    command = parser().read(arguments)
    settings = {name: getattr(command, name) for name in OPTIONS}
    print(evaluate(command.run, output=command.output, processes=command.processes, **settings))


def parser() -> CommandParser:
    text = (
        "Evaluate an agent. The result of a run is written into its folder, that of any other agent into --output if "
        "it is given. Options default to those of the run."
    )
    parser = CommandParser("decision-rnn evaluate", text)
    text = "a run's or packaged agent's folder, pretrained/NAME, org/name of the hub, or policy.onnx"
    parser.add_argument("run", help=text)
    for name, option in OPTIONS.items():
        parser.add_argument(
            f"--{name}", type=parse_as(option.hint), metavar=metavar_of(option.hint, name), help=option.help
        )
    parser.add_argument("--output", type=Path, help="folder to write the result into, in place of the run's")
    text = "number of processes that play; the result does not depend on it (default: one per core)"
    parser.add_argument("--processes", type=parse_as(PositiveInt), help=text)
    return parser
