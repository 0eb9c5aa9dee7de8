"""`decision-rnn report`: write a comparison as one HTML file."""

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser

from decision_rnn.cli.help import arrange
from decision_rnn.errors import InputError
from decision_rnn.parsing import COMMAND_LINE, parse, split_names
from decision_rnn.plugins import PLUGINS_HELP, import_plugins

CLIPS = 3


def run(arguments: Sequence[str]) -> None:
    """Write the page and print where it is; raises InputError for invalid input."""
    command = parse(parser(), arguments)
    if command.clips < 0:
        raise InputError(f"{COMMAND_LINE}: --clips is {command.clips}: it must be at least 0")
    plugins = split_names(command.plugins)
    import_plugins(plugins)
    from decision_rnn.comparison.report.page import write_page  # here: imports torch

    path = write_page(command.comparison, command.output, command.clips, plugins)
    print(f"written to {path}")


def parser() -> ArgumentParser:
    """The parser of the command."""
    parser = ArgumentParser(prog="decision-rnn report", exit_on_error=False, allow_abbrev=False)
    parser.add_argument("comparison", type=Path, help="folder of a comparison, or its comparison.json")
    parser.add_argument("--output", type=Path | None, help="the page (default: report.html in the comparison's folder)")
    parser.add_argument("--clips", type=int, default=CLIPS, help="how many variants' agents to show acting; 0 for none")
    parser.add_argument("--plugins", type=str, default="", metavar="A,B", help=PLUGINS_HELP)
    return arrange(parser, ["comparison", "output", "clips"])
