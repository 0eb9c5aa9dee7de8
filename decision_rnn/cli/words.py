"""Parsing shared by all commands, without imports for runs and agents, which take seconds."""

import argparse
from collections.abc import Sequence

from jsonargparse import ArgumentParser, Namespace

from decision_rnn.errors import InputError
from decision_rnn.parsing import COMMAND_LINE, parse, split_names
from decision_rnn.plugins import PLUGINS_HELP, import_plugins


def command_parser(program: str) -> ArgumentParser:
    """A parser for a command, with the option `--plugins`."""
    parser = ArgumentParser(prog=program, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--plugins", type=str, default="", metavar="A,B", help=PLUGINS_HELP)
    return parser


def parse_command(parser: ArgumentParser, arguments: Sequence[str]) -> Namespace:
    """Parse a command line and import the plugins that it names; raises InputError for invalid input."""
    command = parse(parser, arguments)
    import_plugins(split_names(command.plugins))
    return command


def take(arguments: Sequence[str], *options: str) -> tuple[argparse.Namespace, list[str]]:
    """Remove options, each given by its spellings with spaces between them, and their values from a command line.

    Returns:
        The values, None for options that are not there, and the remaining words.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for option in options:
        parser.add_argument(*option.split())
    try:
        return parser.parse_known_args(list(arguments))
    except argparse.ArgumentError as error:
        raise InputError(f"{COMMAND_LINE}: {error}") from None
