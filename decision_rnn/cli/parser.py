"""The parser that all commands share: a command's own arguments, and the options of a run, `--section.key value`."""

import argparse
import contextlib
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NoReturn

from decision_rnn import config
from decision_rnn.agent import CONDITIONS
from decision_rnn.cli import COMMANDS, RUN_COMMANDS
from decision_rnn.data.dataset import check_name
from decision_rnn.data.sources import SOURCES
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import tell
from decision_rnn.utils.parsing import REQUIRED, Names, Option, convert, options_of, read_yaml, suggest
from decision_rnn.utils.plugins import import_plugins

RUN_KEYS = {field.name for field in fields(config.RunConfig)} - {"plugins"}
MATCH_HELP = "In place of a width: find the one that gives the backbone about this many parameters, such as 600k."
RUN_FILE = "a YAML file of options of a run, as in a run's config.yaml; the command line overrides it"
COMPARISON_FILE = (
    "a YAML file of the options of runs and of `datasets`, `variants`, `backbones`, `controls`, `seeds` and `margin`; "
    "the command line overrides it"
)
SETTING = "setting "
"""Prefix of the attributes of a namespace that are passed on to a function."""


def run_command(name: str, words: Sequence[str]) -> int:
    """Run a command with the words after its name; returns the exit code. Raises InputError for invalid input."""
    return importlib.import_module(f"decision_rnn.cli.{name}").run(command_parser(name).read(words)) or 0


def command_parser(name: str) -> "CommandParser":
    """The parser of one of `COMMANDS`."""
    parser = CommandParser(f"decision-rnn {name}", COMMANDS[name], name in RUN_COMMANDS)
    importlib.import_module(f"decision_rnn.cli.{name}").add_arguments(parser)
    return parser


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
        description: What it does, without the full stop.
        takes_run: Whether it takes the options of a run, on the command line and in a YAML file, `--config FILE`.
    """

    def __init__(self, prog: str, description: str, takes_run: bool = False) -> None:
        text = f"{description[0].upper()}{description[1:]}."
        super().__init__(prog, description=text, add_help=False, allow_abbrev=False)
        self._negative_number_matcher = re.compile(r"-\.?\d")  # -3e2 and -300,-200 are values, not options
        self.takes_run = takes_run
        general = self.add_argument_group("general options")
        text = "modules to import first, from the working folder or as installed: they register what they define"
        general.add_argument("--plugins", type=parse_as(Names), metavar="A,B", help=text, default=argparse.SUPPRESS)
        general.add_argument("--quiet", action="store_true", help="print only results and errors")  # read by main.py
        action = "store_true" if takes_run else "help"  # with a run's options, once the backbone and plugins are known
        general.add_argument("-h", "--help", action=action, help="print this help")
        self.compares = prog.endswith(" compare")
        if takes_run:
            text = COMPARISON_FILE if self.compares else RUN_FILE
            self.add_argument("--config", type=Path, metavar="FILE", help=text)
            self.usage = "%(prog)s [dataset] [--config FILE] [options] [--SECTION.KEY VALUE ...]"
            self.epilog = "Other backbones, conditions and objectives have other options: add `--backbone NAME --help`."

    def add_settings(
        self,
        declaration: Callable[..., Any],
        *names: str,
        required: bool = False,
        show_defaults: bool = True,
        section: str = "",
    ) -> None:
        """Add arguments of a function or keys of a dataclass as options, described by its docstring.

        Those that a command line names are in the attribute `settings` of its values.
        """
        for name in names:
            option = options_of(declaration)[name]
            kind: dict[str, Any] = {"type": parse_as(option.hint), "metavar": name.upper()}
            if option.hint is bool:
                kind = {"action": "store_true"}
            text = help_text(option) if show_defaults and option.hint is not bool else option.help
            kind |= {"dest": SETTING + section + name, "default": argparse.SUPPRESS, "required": required}
            self.add_argument(f"--{section}{name}", help=text, **kind)

    def add_condition(self) -> None:
        """Add the options of conditions that only change how agents act, `--condition.KEY`, kept in `settings`."""
        acting = {name: entry.config for entry in CONDITIONS.values() for name in entry.config.acting}
        for name, kind in acting.items():
            self.add_settings(kind, name, show_defaults=False, section="condition.")

    def error(self, message: str) -> NoReturn:
        """Called by argparse for arguments that it cannot use."""
        end = "" if message.endswith("?") else "."
        raise InputError(f"{message}{end} `{self.prog} --help` lists the arguments.")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, but an unknown argument is this parser's error, before that of a missing one."""
        options = [] if self._subparsers else [word.partition("=")[0] for word in args if re.match(r"--\w", word)]
        unknown = [name for name in options if name not in self._option_string_actions]
        if not unknown:
            values, unknown = super().parse_known_args(args, namespace)
        if unknown:
            known = [name.strip("-") for name in self._option_string_actions]
            known += config.option_names({}) if self.takes_run else []
            self.error(f"unknown argument {unknown[0]!r:.100}. {suggest(unknown[0].strip('-'), known)}".strip(" ."))
        return values, unknown

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The values of a command line, with the plugins that it names imported.

        The attribute `settings` holds what `add_settings` added and the command line names; with `takes_run`, `options`
        holds the options of a run, by dotted key, that the file and the command line give, and `overrides` those of the
        command line alone. They are not validated yet.

        Raises:
            InputError: If an argument is unknown, missing or invalid.
        """
        words = [re.sub("^--[^=]+", lambda name: f"--{name[0][2:].replace('-', '_')}", word) for word in arguments]
        overrides, words = _split_options(words) if self.takes_run else ({}, words)
        values = self.parse_args(words, argparse.Namespace(plugins=()))
        import_plugins(values.plugins)
        settings = {key: value for key, value in vars(values).items() if key.startswith(SETTING)}
        values.settings = {key.removeprefix(SETTING): value for key, value in settings.items()}
        values.words, values.options = arguments, {}
        if self.takes_run:
            file_options = {} if values.config is None else config.flatten(read_yaml(values.config))
            values.overrides = overrides | ({"plugins": values.plugins} if values.plugins else {})
            values.options = config.overlay(file_options, values.overrides)
            if values.help:
                self.add_run_options(values.options)
                self.print_help()
                self.exit()
        for name in convert(getattr(values, "dataset", None) or values.options.get("dataset") or (), Names):
            if "/" not in name and not getattr(values, "print_commands", False):  # only commands are printed
                with contextlib.suppress(InputError):  # the command reports an unknown name
                    published = f"d4rl/{name}-v2"
                    hint = f" D4RL's own data are {published}." if published in SOURCES["d4rl"].names() else ""
                    tell(f"{name} is {check_name(name)}, a stand-in made by this package.{hint}")
        return values

    def add_run_options(self, options: Mapping[str, Any]) -> None:
        """Add the options of a run to the help, with the backbone, condition and objective that dotted keys choose."""
        options = config.complete(options)
        for section, kind in config.section_classes(options).items():
            group = self.add_argument_group(section or "data and seed", (kind.__doc__ or "").partition("\n")[0])
            for name, option in options_of(kind).items():
                key = f"{section}.{name}".lstrip(".")
                if section in config.CHOICES and name == "name":
                    names = ", ".join(config.CHOICES[section].names())
                    text = f"{options_of(config.RunConfig)[section].help} One of {names}."
                    key, option = section, replace(option, help=text, default=options[key])
                    if section == "backbone" and self.compares:
                        text = "Not in `compare`: use --backbones. `--backbone NAME --help` lists a backbone's options."
                        option = replace(option, help=text, default=None)
                elif not section and name in (*config.SECTIONS, "dataset", "plugins"):
                    continue
                group.add_argument(f"--{key}", metavar=name.upper(), help=help_text(option))
            if section == "backbone":
                group.add_argument(f"--{config.MATCH}", metavar="NUMBER", help=MATCH_HELP)


def help_text(option: Option) -> str:
    """The description of an option, with its default unless it has none or the description states it."""
    text, default = option.help, option.default
    if default not in (None, "", (), REQUIRED) and "default" not in text.lower():
        shown = ",".join(default) if isinstance(default, tuple) else default
        text += f" (default: {str(shown).lower() if isinstance(shown, bool) else shown})"
    return text.replace("%", "%%")


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
        value = value if equals else next(words, "--")
        if value.startswith("--"):
            raise InputError(f"argument --{key}: expected one argument")
        options[key] = None if value == "null" else value
    return config.flatten(options), others
