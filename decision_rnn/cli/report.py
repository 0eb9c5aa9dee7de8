"""`decision-rnn report`: write a comparison as one HTML file."""

from collections.abc import Sequence
from pathlib import Path

from decision_rnn.cli.parser import CommandParser, parse_as
from decision_rnn.comparison.report.page import write_page
from decision_rnn.utils.parsing import NonNegativeInt


def run(arguments: Sequence[str]) -> None:
    """Write the page and print where it is; raises InputError for invalid input."""
    command = parser().read(arguments)
    print(f"written to {write_page(command.comparison, command.output, command.clips, command.plugins)}")


def parser() -> CommandParser:
    parser = CommandParser("decision-rnn report", "Write a comparison as one HTML file.")
    parser.add_argument("comparison", type=Path, help="folder of a comparison, or its comparison.json")
    parser.add_argument("--output", type=Path, help="the page (default: report.html in the comparison's folder)")
    text = "how many variants' agents to show acting; 0 for none"
    parser.add_argument("--clips", type=parse_as(NonNegativeInt), default=3, help=text)
    return parser
