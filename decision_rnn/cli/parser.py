"""The parser that all commands share: a command's own arguments, and the options of a run, `--section.key value`."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin

from decision_rnn.config import (
    CHOICES,
    MATCH,
    SECTIONS,
    RunConfig,
    complete,
    flatten,
    option_names,
    overlay,
    section_classes,
)
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import tell
from decision_rnn.utils.parsing import Names, convert, options_of, parse_yaml, read_yaml, suggest
from decision_rnn.utils.plugins import import_plugins

RUN_KEYS = {field.name for field in fields(RunConfig)} - {"plugins"}
HELP = ("-h", "--help")
MATCH_HELP = "In place of a width: find the one that gives the backbone about this many parameters, such as 600k."


def parse_as(kind: Any) -> Callable[[str], Any]:
    """An argparse type that reads text as a value of that annotation."""

    def parse(text: str) -> Any:
        try:
            return convert(text, kind)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are InputErrors, and in whose options a dash is an underscore.

    Args:
        prog: The command, such as `decision-rnn train`.
        description: What it does.
        takes_run: Whether it takes the options of a run, on the command line and in a YAML file, `--config FILE`.
    """

    def __init__(self, prog: str, description: str = "", takes_run: bool = False) -> None:
        super().__init__(
            prog, description=description, add_help=False, allow_abbrev=False, formatter_class=_HelpFormatter
        )
        self._negative_number_matcher = re.compile(r"-\.?\d")  # -3e2 and -300,-200 are values, not options
        self.takes_run = takes_run
        general = self.add_argument_group("general options")
        text = "modules to import first, from the working folder or as installed: they register what they define"
        general.add_argument("--plugins", type=parse_as(Names), default=(), metavar="A,B", help=text)
        general.add_argument("--quiet", action="store_true", help="print only results and errors")  # read by main.py
        general.add_argument("-h", "--help", action="help", help="print this help")
        if takes_run:
            text = "a YAML file of options of a run, as in a run's config.yaml; the command line overrides it"
            self.add_argument("--config", type=Path, metavar="FILE", help=text)
            self.usage = "%(prog)s [dataset] [--config FILE] [options] [--SECTION.KEY VALUE ...]"
            self.epilog = "Other backbones, conditions and objectives have other options: add `--backbone NAME --help`."

    def error(self, message: str) -> NoReturn:
        """Called by argparse for arguments that it cannot use."""
        raise InputError(f"{message}. `{self.prog} --help` lists the arguments.")

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The values of a command line, with the plugins that it names imported.

        With `takes_run` the attribute `options` holds the options of a run, by dotted key, that the file and the
        command line give, and `overrides` those of the command line alone. They are not validated yet.

        Raises:
            InputError: If an argument is unknown, missing or invalid.
        """
        words = [_with_underscores(word) for word in arguments]
        options, words = _split_options(words) if self.takes_run else ({}, words)
        asks_for_help = self.takes_run and any(word in HELP for word in words)
        values, unknown = self.parse_known_args([word for word in words if not asks_for_help or word not in HELP])
        if unknown:
            known = [*(name.strip("-") for name in self._option_string_actions), *option_names({}) * self.takes_run]
            self.error(f"unknown argument {unknown[0]!r:.100}. {suggest(unknown[0].strip('-'), known)}".strip(" ."))
        import_plugins(values.plugins)
        if self.takes_run:
            file_options = {} if values.config is None else flatten(read_yaml(values.config))
            values.overrides = options | ({"plugins": values.plugins} if values.plugins else {})
            values.options = overlay(file_options, values.overrides)
        if asks_for_help:
            self.add_run_options(values.options)
            self.parse_args(["--help"])
        return values

    def add_run_options(self, options: Mapping[str, Any]) -> None:
        """Add the options of a run to the help, with the backbone, condition and objective that dotted keys choose."""
        options = complete(options)
        for section, kind in section_classes(options).items():
            group = self.add_argument_group(section or "data and seed", (kind.__doc__ or "").partition("\n")[0])
            for name, option in options_of(kind).items():
                key, default, text = f"{section}.{name}".lstrip("."), option.default, option.help
                if section in CHOICES and name == "name":
                    registry, default = CHOICES[section]
                    key, default = section, options.get(key, default)
                    text = f"{options_of(RunConfig)[section].help} One of {', '.join(registry.names())}."
                elif not section and name in (*SECTIONS, "dataset", "plugins"):
                    continue
                metavar, text = metavar_of(option.hint, name), text.replace("%", "%%")
                group.add_argument(f"--{key}", metavar=metavar, default=default, help=text)
            if section == "backbone":
                group.add_argument(f"--{MATCH}", metavar="NUMBER", help=MATCH_HELP)


def announce_standin(name: str | None) -> None:
    """Print what a dataset's name without a source means."""
    if name and "/" not in name:
        text = f"{name} is standin/{name}, episodes made by this package. D4RL's own data are d4rl/{name}-v2."
        tell(text)


def _with_underscores(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"--{name[2:].replace('-', '_')}{equals}{value}" if name.startswith("--") and len(name) > 2 else word


def _split_options(arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The options of a run among the words of a command line, by dotted key, and the other words."""
    options: dict[str, Any] = {}
    others: list[str] = []
    words = iter(arguments)
    for word in words:
        key, equals, value = word[2:].partition("=")
        if not word.startswith("--") or not ("." in key or key in RUN_KEYS):
            others.append(word)
            continue
        options[key] = parse_yaml(value if equals else next(words, ""))
    return flatten(options), others


def metavar_of(kind: Any, name: str) -> str:
    """The values of a literal, or the option's name in capitals."""
    choices = [value for part in (kind, *get_args(kind)) if get_origin(part) is Literal for value in get_args(part)]
    return f"{{{','.join(map(str, choices))}}}" if choices else name.upper()


class _HelpFormatter(argparse.HelpFormatter):
    """Shows the default of every option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text, default = action.help or "", action.default
        if action.nargs == 0 or default in (None, "", (), argparse.SUPPRESS) or "default" in text.lower():
            return text
        return f"{text} (default: {str(default).lower() if isinstance(default, bool) else '%(default)s'})"
