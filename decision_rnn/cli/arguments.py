"""From a command line to the keys of a run: those of the file given by `--config`, overridden by `--KEY VALUE`."""

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from decision_rnn.cli.parser import CommandParser
from decision_rnn.config import (
    CHOICES,
    MATCH,
    SECTIONS,
    RunConfig,
    complete,
    flatten,
    from_dict,
    option_names,
    overlay,
    section_classes,
)
from decision_rnn.training.agents import with_architecture
from decision_rnn.training.run_files import config_file
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import (
    COMMAND_LINE,
    Names,
    Option,
    convert,
    options_of,
    parse_yaml,
    read_yaml,
    split_names,
)
from decision_rnn.utils.plugins import import_plugins

AddOptions = Callable[[CommandParser], None]


def parse_run(
    program: str, arguments: Sequence[str], add_options: AddOptions = lambda parser: None, common: Sequence[str] = ()
) -> tuple[RunConfig, Namespace]:
    """The configuration of the run that a command line describes, and the command's own options.

    Arguments and errors are those of `read_words`; a key that is unknown, missing or invalid is an InputError too.
    """
    keys, words, command = read_words(program, arguments, add_options, common)
    if "init_from" in words and not getattr(command, "resume", False):
        words = with_architecture(words)
    if command.config is None:
        return from_dict(words, COMMAND_LINE), command
    source = f"{command.config} and the {COMMAND_LINE}" if words else str(command.config)
    return from_dict(overlay(keys, words), source), command


def read_words(
    program: str, arguments: Sequence[str], add_options: AddOptions, common: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any], Namespace]:
    """Read the command line of a command for runs; plugins that it names are imported.

    Args:
        program: The command's name.
        arguments: The words after the command's name.
        add_options: Adds the command's own options to its parser.
        common: The keys of a run that `--help` shows beside them.

    Returns:
        The flat keys of the file that `--config` names or, with `--resume`, of the run in `--output`, those on the
        command line, neither of them checked yet, and the command's own options.

    Raises:
        InputError: If the file cannot be read, or an option is unknown or invalid.
    """
    words, others = _split_words(arguments)
    help_words = {"-h", "--help"}.intersection(others)
    command = run_parser(program, add_options).read([word for word in others if word not in help_words])
    import_plugins(convert(words.get("plugins", ()), Names, "plugins"))
    if command.config is None and getattr(command, "resume", False) and command.output is not None:
        command.config = config_file(command.output)
    keys = {} if command.config is None else flatten(read_yaml(command.config))
    if command.dataset is not None:
        words["dataset"] = command.dataset
    if help_words:
        choices = overlay(keys, words)
        if names := split_names(getattr(command, "backbones", None)):  # of a comparison
            choices["backbone.name"] = names[0]
        run_parser(program, add_options, common, choices).parse_args(["--help"])
    return keys, words, command


def _split_words(arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The keys of a run among the words of a command line, `--KEY VALUE` or `--KEY=VALUE`, and the other words."""
    keys: dict[str, Any] = {}
    others: list[str] = []
    words = iter(arguments)
    for word in words:
        key, equals, value = word[2:].partition("=")
        if word == "--":
            others += [word, *words]
        elif not word.startswith("--") or not ("." in key or key in options_of(RunConfig)):
            others.append(word)
        else:
            value = value if equals else next(words, "--")
            if value.startswith("--") and not equals:
                raise InputError(f"{COMMAND_LINE}: --{key} has no value: give one, such as --{key} VALUE")
            keys[key] = parse_yaml(value)
    return flatten(keys), others


def run_options(keys: Mapping[str, Any]) -> dict[str, Option]:
    """All options of a run by dotted key, with the backbone, condition and objective that dotted keys choose."""
    options = {
        f"{section}.{name}".lstrip("."): option
        for section, kind in section_classes(keys).items()
        for name, option in options_of(kind).items()
        if name not in SECTIONS or section
    }
    text = "Instead of a width: find the one that gives the backbone about this many parameters, such as 600k."
    options[MATCH] = Option(MATCH, int | str | None, None, text)
    return {key: replace(option, name=key) for key, option in options.items()}


def run_parser(
    program: str, add_options: AddOptions, common: Sequence[str] = (), keys: Mapping[str, Any] | None = None
) -> CommandParser:
    """The parser of a command for runs; with `keys`, which choose a backbone, a condition and an objective, it has the
    keys of a run too, for its help and for completion: those in `common` first."""
    parser = CommandParser(
        program,
        usage=f"{program} [dataset] [--config FILE] [--KEY VALUE ...]",
        epilog=f"`{program} --backbone NAME --help` shows the options of another backbone.",
    )
    parser.keys = option_names({})
    add_options(parser)
    if "dataset" not in parser.hints:
        parser.add_argument("dataset", nargs="?", help="the dataset's name, such as hopper-medium")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a YAML file of keys; the command line overrides it"
    )
    if keys is None:
        return parser
    keys = complete(keys)
    options = run_options(keys)
    for section, (registry, default) in CHOICES.items():
        name = options.pop(f"{section}.name")
        text = f"{options_of(RunConfig)[section].help} One of {', '.join(registry.names())}."
        options[section] = replace(name, name=section, default=keys.get(name.name, default), help=text)
    parser.add_options(options[key] for key in common)
    groups = {section: parser.add_argument_group(section) for section in SECTIONS}
    run = parser.add_argument_group("data and seed")
    for key, option in options.items():
        if key not in common and key not in parser.hints:
            parser.add_options([option], groups.get(key.partition(".")[0], run))
    return parser
