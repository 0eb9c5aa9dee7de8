"""What `--help` shows: first what one needs, then the rest under headings, each with its default."""

import argparse
from collections.abc import Sequence
from typing import Any

from jsonargparse import ArgumentParser, DefaultHelpFormatter


class HelpFormatter(DefaultHelpFormatter):
    """An option's own words and its default, where it has one; no types, which the words and errors tell."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        flag = not action.option_strings or action.nargs == 0
        silent = flag or "default" in text or action.default is None or action.default in (argparse.SUPPRESS, "", ())
        return text if silent else f"{text} (default: %(default)s)"


def arrange(parser: ArgumentParser, needed: Sequence[str], rest: str = "further options") -> ArgumentParser:
    """Add `--quiet` to a command's parser and put the options that one needs before all others in its help.

    Args:
        parser: With all its options.
        needed: Their keys, in order.
        rest: The heading of those that have no other.
    """
    parser.formatter_class = HelpFormatter
    # main.py takes it off the command line, whatever the command.
    parser.add_argument("--quiet", action="store_true", help="print results and errors alone: no bar, no remark")
    shown = {action.dest: action for action in parser._actions if action.help != argparse.SUPPRESS}
    chosen = [shown[key] for key in needed if key in shown]
    group = parser.add_argument_group("what one needs")
    groups: Any = parser._action_groups  # a list, whatever its type says
    for other in groups:
        other._group_actions = [action for action in other._group_actions if action not in chosen]
    group._group_actions = chosen
    groups.remove(group)
    groups.insert(0, group)
    parser._optionals.title = rest
    return parser
