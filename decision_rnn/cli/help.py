"""The layout of `--help`: first the options one needs, then the rest under headings, each with its default."""

import argparse
from collections.abc import Sequence
from typing import Any

from jsonargparse import ArgumentParser, DefaultHelpFormatter


class HelpFormatter(DefaultHelpFormatter):
    """Shows an option's help and its default, if it has one, but no types, which help and errors explain."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        flag = not action.option_strings or action.nargs == 0
        silent = flag or "default" in text or action.default is None or action.default in (argparse.SUPPRESS, "", ())
        return text if silent else f"{text} (default: %(default)s)"


def arrange(parser: ArgumentParser, needed: Sequence[str], rest: str = "further options") -> ArgumentParser:
    """Add `--quiet` to a command's parser and show the options one needs first in its help.

    Args:
        parser: The parser, with all its options.
        needed: The keys of the options one needs, in order.
        rest: The heading of the options that have no other.
    """
    parser.formatter_class = HelpFormatter
    # main.py removes it from the command line of every command.
    parser.add_argument(
        "--quiet", action="store_true", help="print only results and errors, no progress bar and no remarks"
    )
    shown = {action.dest: action for action in parser._actions if action.help != argparse.SUPPRESS}
    chosen = [shown[key] for key in needed if key in shown]
    group = parser.add_argument_group("what one needs")
    groups: Any = parser._action_groups  # a list, despite its declared type
    for other in groups:
        other._group_actions = [action for action in other._group_actions if action not in chosen]
    group._group_actions = chosen
    groups.remove(group)
    groups.insert(0, group)
    parser._optionals.title = rest
    return parser
