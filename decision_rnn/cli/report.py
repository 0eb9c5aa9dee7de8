"""`decision-rnn report`: write a comparison as one HTML file."""

from collections.abc import Sequence
from pathlib import Path

from decision_rnn.cli.parser import CommandParser
from decision_rnn.comparison.page import write_page


def run(arguments: Sequence[str]) -> None:
    """Write the page and print where it is; raises InputError for invalid input."""
    command = parser().read(arguments)
    print(f"written to {write_page(command.comparison, command.output)}")


def parser() -> CommandParser:
    parser = CommandParser("decision-rnn report", "Write a comparison as one HTML file.")
    parser.add_argument("comparison", type=Path, help="folder of a comparison, or its comparison.json")
    parser.add_argument("--output", type=Path, help="the page (default: report.html in the comparison's folder)")
    return parser
