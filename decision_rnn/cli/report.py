"""`decision-rnn report`: write a comparison as one HTML file."""

from argparse import Namespace
from pathlib import Path

from decision_rnn.cli.parser import CommandParser
from decision_rnn.comparison.results import write_page


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("comparison", type=Path, help="folder of a comparison, or its comparison.json")
    parser.add_settings(write_page, "output")


def run(command: Namespace) -> None:
    """Write the page and print where it is."""
    print(f"written to {write_page(command.comparison, **command.settings)}")
