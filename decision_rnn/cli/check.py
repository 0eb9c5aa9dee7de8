"""`decision-rnn check`: check a layer against the contract of sequence mixers."""

from collections.abc import Callable, Sequence
from typing import Any

from decision_rnn.cli.parser import CommandParser
from decision_rnn.utils.parsing import PositiveInt
from decision_rnn.utils.plugins import import_callable


def run(arguments: Sequence[str]) -> int:
    """Print the report; returns 0 if the layer keeps the contract, 1 if a property fails."""
    command = parser().read(arguments)
    from decision_rnn.testing import check_mixer  # here: slow, and not needed for `--help`

    report = check_mixer(_find_mixer(command.mixer), width=command.width, raise_error=False)
    print(report)
    return 1 if report.failed else 0


def parser() -> CommandParser:
    parser = CommandParser("decision-rnn check")
    parser.add_argument("mixer", help="a registered backbone, or module.Class from the working folder")
    parser.add_argument("--width", type=PositiveInt | None, help="channels of its input and output (default: 8)")
    return parser


def _find_mixer(name: str) -> Callable[..., Any]:
    """The mixer registered under a name, or a class named as `module.Class`, whose module is imported."""
    if "." in name:
        return import_callable(name, "check", "class")
    from decision_rnn.backbones import registered

    return registered(name).cls
