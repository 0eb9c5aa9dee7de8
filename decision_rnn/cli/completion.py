"""`decision-rnn completion SHELL`: print a script that lets a shell complete commands, options and their values."""

import argparse
import importlib
import importlib.util
from collections.abc import Sequence
from typing import Literal

from decision_rnn.cli.main import COMMANDS
from decision_rnn.cli.parser import CommandParser
from decision_rnn.utils.errors import InputError


def run(arguments: Sequence[str]) -> None:
    """Print the script; raises InputError for an unknown shell, or if shtab is not installed."""
    command = parser().read(arguments)
    if importlib.util.find_spec("shtab") is None:
        raise InputError("shell completion is made by shtab, which is not installed: `pip install shtab`")
    import shtab

    whole = argparse.ArgumentParser("decision-rnn")
    whole.add_argument("--version", action="store_true", help="print the version")
    commands = whole.add_subparsers()
    for name in (name for name in COMMANDS if name != "completion"):
        module = importlib.import_module(f"decision_rnn.cli.{name}")
        if hasattr(module, "parsers"):
            actions = commands.add_parser(name, help=name).add_subparsers()
            for action, parser_of_action in module.parsers().items():
                actions.add_parser(action, help=action, parents=[parser_of_action], add_help=False)
        else:
            commands.add_parser(name, help=name, parents=[module.parser()], add_help=False)
    print(shtab.complete(whole, command.shell))


def parser() -> CommandParser:
    description = (
        'Completion of commands, options and values, as a script for your shell: eval "$(decision-rnn completion '
        'bash)" in ~/.bashrc, or decision-rnn completion zsh > a folder of $fpath/_decision-rnn'
    )
    parser = CommandParser("decision-rnn completion", description=description)
    parser.add_argument("shell", type=Literal["bash", "zsh"], help="bash or zsh")
    return parser
