"""The parser that all commands share. It imports neither torch nor the configuration of a run, which takes seconds."""

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import COMMAND_LINE, REQUIRED, Option, convert, split_names, suggest
from decision_rnn.utils.plugins import PLUGINS_HELP, import_plugins

RENAMED = {
    "--target-return": "--target_returns",
    "--target_return": "--target_returns",
    "--ray-address": "--ray_address",
}
"""Options of version 0.2 and their present names."""


class CommandParser(argparse.ArgumentParser):
    """An argparse parser whose types are annotations, such as `Path | None`, and whose errors are InputErrors."""

    def __init__(self, program: str, **settings: Any) -> None:
        super().__init__(program, add_help=False, allow_abbrev=False, formatter_class=_HelpFormatter, **settings)
        self._negative_number_matcher = re.compile(r"-\.?\d")  # -3e2 and -300,-200 are values too, not options
        self.hints: dict[str, Any] = {"plugins": str}
        self.keys: Sequence[str] = ()  # of a run, for suggestions
        general = self.add_argument_group("general options")
        general.add_argument("--plugins", default="", metavar="A,B", help=PLUGINS_HELP)
        # main.py removes it from the command line of every command.
        general.add_argument("--quiet", action="store_true", help="print only results and errors")
        general.add_argument("-h", "--help", action="help", help="print this help")

    def add_argument(self, *names: str, type: Any = str, **settings: Any) -> argparse.Action:
        """As in argparse, except that `type` is an annotation; literals are offered as choices."""
        return self.add_typed(self, *names, hint=type, **settings)

    def add_typed(self, group: Any, *names: str, hint: Any, **settings: Any) -> argparse.Action:
        """Add an argument with an annotation to this parser or to one of its groups."""
        choices = [kind for kind in (hint, *get_args(hint)) if get_origin(kind) is Literal]
        if choices:
            settings["choices"] = get_args(choices[0])
        add = super().add_argument if group is self else group.add_argument
        action: argparse.Action = add(*names, **settings)
        self.hints[action.dest] = hint
        return action

    def add_options(self, options: Iterable[Option], group: Any = None) -> None:
        """Add options that a dataclass or a function declares."""
        for option in options:
            needed: dict[str, Any] = {"required": True} if option.default is REQUIRED else {"default": option.default}
            text = option.help.replace("%", "%%")
            metavar = option.name.rpartition(".")[2].upper()
            if not any(get_origin(kind) is Literal for kind in (option.hint, *get_args(option.hint))):
                needed["metavar"] = metavar
            self.add_typed(group or self, f"--{option.name}", hint=option.hint, help=text, **needed)

    def error(self, message: str) -> Any:
        """Called by argparse for arguments that it cannot use."""
        raise InputError(f"{COMMAND_LINE}: {message}; `{self.prog} --help` lists the arguments")

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The values of a command line, with the plugins that it names imported.

        Raises:
            InputError: If an argument is unknown, missing or invalid.
        """
        values, unknown = self.parse_known_args(list(arguments))
        for word in unknown:
            option = word.partition("=")[0]
            if option in RENAMED:
                raise InputError(f"{COMMAND_LINE}: {option} has been renamed: use {RENAMED[option]}")
            hint = suggest(option.strip("-"), [*(name.strip("-") for name in self._option_string_actions), *self.keys])
            raise InputError(
                f"{COMMAND_LINE}: unknown argument {word!r:.100}; {hint}`{self.prog} --help` lists the arguments"
            )
        for key, hint in self.hints.items():
            value = getattr(values, key)
            if value == "" and Path in (hint, *get_args(hint)):
                raise InputError(f"{COMMAND_LINE}: --{key} is empty: give a path, or leave it out")
            if isinstance(value, str):
                setattr(values, key, convert(value, hint, f"{COMMAND_LINE}: {key}"))
        import_plugins(split_names(values.plugins))
        return values


class _HelpFormatter(argparse.HelpFormatter):
    """Shows the default of every option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        if action.nargs == 0 or action.default in (None, "", (), argparse.SUPPRESS) or "default" in text:
            return text
        return f"{text} (default: {str(action.default).lower() if isinstance(action.default, bool) else '%(default)s'})"
