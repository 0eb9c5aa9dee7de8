"""`decision-rnn completion SHELL`: print a script that completes commands, options and their values in a shell."""

import argparse
import importlib
from collections.abc import Sequence

from decision_rnn.cli.main import COMMANDS
from decision_rnn.cli.parser import CommandParser


def run(arguments: Sequence[str]) -> None:
    """Print the script."""
    import shtab  # optional

    shell = parser().read(arguments).shell
    root = argparse.ArgumentParser("decision-rnn")
    commands = root.add_subparsers()
    for name in COMMANDS:
        command = importlib.import_module(f"decision_rnn.cli.{name}").parser()
        if command.takes_run:
            command.add_run_options({})
        commands.add_parser(name, help=COMMANDS[name], parents=[command], add_help=False)
    print(shtab.complete(root, shell))


def parser() -> CommandParser:
    text = 'Print a completion script, such as for eval "$(decision-rnn completion bash)" in ~/.bashrc.'
    parser = CommandParser("decision-rnn completion", text)
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    return parser
