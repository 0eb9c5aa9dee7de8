"""`decision-rnn evaluate`: evaluate an agent.

The result of a run or of one of its checkpoints is written to the run's folder. The result of any other agent, whose
folder may be read-only, is printed, and written only to the folder given by `--output`.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from decision_rnn.cli.parser import CommandParser
from decision_rnn.config import EvaluationConfig
from decision_rnn.training.agents import load_subject
from decision_rnn.utils.messages import tell
from decision_rnn.utils.parsing import PositiveInt, options_of

OPTIONS = {name: option for name, option in options_of(EvaluationConfig).items() if name != "checkpoint_episodes"}


def run(arguments: Sequence[str]) -> None:
    """Evaluate an agent, overriding its settings with the command line's; raises InputError for invalid input."""
    command = parser().read(arguments)
    subject, run_folder = load_subject(command.run)
    from decision_rnn.evaluation.results import result_file
    from decision_rnn.training.run import evaluate  # here: slow, and not needed for `--help`

    output = command.output or run_folder
    settings = {name: getattr(command, name) for name in (*OPTIONS, "processes")}
    result = evaluate(subject, output=output, **settings)
    print(result)
    if output is None:
        tell(f"not written: {command.run} is not a run, so name a folder with --output")
    else:
        tell(f"written to {result_file(output, result)}")


def parser() -> CommandParser:
    parser = CommandParser("decision-rnn evaluate")
    text = "a run's or packaged agent's folder, pretrained/NAME, org/name of the hub, or policy.onnx"
    parser.add_argument("run", help=text)
    for option in OPTIONS.values():  # their defaults are known once the run is read
        text = option.help.removesuffix("; 0 for no evaluation after training.")
        parser.add_options([replace(option, default=None, help=f"{text} (default: the run's)")])
    parser.add_argument("--output", type=Path, help="folder to write the result into (default: that of the run)")
    text = "number of processes that play; the result does not depend on it (default: one per core)"
    parser.add_argument("--processes", type=PositiveInt, help=text)
    return parser
