"""`decision-rnn completion SHELL`: print a script that completes commands, options and their values in a shell."""

import argparse

from decision_rnn.cli import COMMANDS
from decision_rnn.cli.parser import CommandParser, command_parser
from decision_rnn.utils.errors import importing


def add_arguments(parser: CommandParser) -> None:
    text = 'the shell; in ~/.bashrc write eval "$(decision-rnn completion bash)"'
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help=text)


def run(command: argparse.Namespace) -> None:
    """Print the script."""
    with importing("`decision-rnn completion`", "completion"):
        import shtab
    root = argparse.ArgumentParser("decision-rnn")
    commands = root.add_subparsers()
    for name, text in COMMANDS.items():
        parser = command_parser(name)
        if parser.takes_run:
            parser.add_run_options({})
        commands.add_parser(name, help=text, parents=[parser], add_help=False)
    print(shtab.complete(root, command.shell))
