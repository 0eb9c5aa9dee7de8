"""`decision-rnn completion SHELL`: print a script that lets a shell complete commands, options and their values."""

import importlib
import importlib.util
from collections.abc import Sequence

from jsonargparse import ArgumentParser

from decision_rnn.cli.help import arrange
from decision_rnn.cli.main import COMMANDS
from decision_rnn.errors import InputError
from decision_rnn.parsing import parse

SHELLS = ("bash", "zsh")


def run(arguments: Sequence[str]) -> None:
    """Print the script; raises InputError for an unknown shell, or if shtab is not installed."""
    command = parse(parser(), arguments)
    if command.shell not in SHELLS:
        raise InputError(f"command line: unknown shell {command.shell!r:.100}: known are {', '.join(SHELLS)}")
    if importlib.util.find_spec("shtab") is None:
        raise InputError("shell completion is made by shtab, which is not installed: `pip install shtab`")
    whole = ArgumentParser(prog="decision-rnn", exit_on_error=False)
    whole.add_argument("--version", action="store_true", help="print the version")
    commands = whole.add_subcommands(required=False)
    for name in (name for name in COMMANDS if name != "completion"):
        module = importlib.import_module(f"decision_rnn.cli.{name}")
        if not hasattr(module, "parsers"):
            commands.add_subcommand(name, module.parser(), help=name)
            continue
        upper = ArgumentParser(prog=f"decision-rnn {name}", exit_on_error=False)
        commands.add_subcommand(name, upper, help=name)
        lower = upper.add_subcommands(required=False)
        for action, parser_of_action in module.parsers().items():
            lower.add_subcommand(action, parser_of_action, help=action)
    print(whole.get_completion_script(f"shtab-{command.shell}"))


def parser() -> ArgumentParser:
    """The parser of the command."""
    parser = ArgumentParser(
        prog="decision-rnn completion",
        description="Completion of commands, options and values, as a script for your shell: "
        'eval "$(decision-rnn completion bash)" in ~/.bashrc, or '
        "decision-rnn completion zsh > a folder of $fpath/_decision-rnn",
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_argument("shell", type=str, help=" or ".join(SHELLS))
    return arrange(parser, ["shell"])
