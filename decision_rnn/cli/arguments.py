"""Parses a run from a YAML file with `--section.key value` overrides; what all commands share is in words.py."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from decision_rnn.cli.help import arrange
from decision_rnn.cli.words import take
from decision_rnn.config import DEFAULT_BACKBONE, DEFAULT_CONDITION, DEFAULT_OBJECTIVE, RunConfig
from decision_rnn.config_parser import (
    MATCH,
    WIDTH,
    apply,
    backbone_of,
    check_backbone_keys,
    condition_of,
    instantiate,
    objective_of,
    refuse_renamed,
    run_parser,
    section,
    two_widths,
)
from decision_rnn.errors import InputError
from decision_rnn.parsing import COMMAND_LINE, options_of, parse, read_yaml, split_names
from decision_rnn.plugins import check_plugins, import_plugins, plugins_of

BACKBONE, OBJECTIVE = "--backbone --backbone.name", "--objective --objective.name"
CONDITION = "--condition --condition.name"


def parse_run(
    program: str,
    arguments: Sequence[str],
    add_options: Callable[[ArgumentParser], None] = lambda parser: None,
    file: tuple[Mapping[str, Any], str] | None = None,
    needed: Sequence[str] = (),
) -> tuple[RunConfig, Namespace]:
    """The configuration of the run that a command line describes, and the command's own options.

    Options `--section.key value` override the YAML file given by `--config`. Only plugins named on the command line are
    imported; those named in the file must be among them.

    Args:
        program: The command's name, for its help.
        arguments: The words after the command's name.
        add_options: Adds the command's own options.
        file: Keys and values instead of those of `--config`, and their origin, for messages.
        needed: The keys that `--help` shows first.

    Raises:
        InputError: If a file or key is invalid; the message names it.
    """
    first, rest = take(
        arguments, BACKBONE, OBJECTIVE, CONDITION, "--config", "--plugins"
    )  # the other options depend on them
    plugins = split_names(first.plugins)
    import_plugins(plugins)
    data: dict[str, Any] = {}
    source = COMMAND_LINE
    if file is not None:
        data, source = dict(file[0]), file[1]
    elif first.config is not None:
        data, source = read_yaml(Path(first.config)), first.config
    check_plugins(plugins_of(data, source), source)
    if plugins:
        data["plugins"] = plugins
    if (chosen := first.backbone) is not None:
        module, dot, mixer = chosen.rpartition(".")
        if dot and module not in sys.modules:
            raise InputError(
                f"{COMMAND_LINE}: --backbone {chosen:.100} is a class, and its module is not imported for that: give "
                f"the name that it is registered by, such as --plugins {module:.100} --backbone {mixer.lower():.100}"
            )
        data["backbone"] = {**section(data.get("backbone")), "name": chosen}
    if first.objective is not None:
        data["objective"] = {**section(data.get("objective")), "name": first.objective}
    if first.condition is not None:
        data["condition"] = {**section(data.get("condition")), "name": first.condition}
    refuse_renamed(data, source)
    parser = run_parser(program, backbone_of(data), objective_of(data), condition_of(data))
    add_options(parser)
    base = apply(parser, data, source)
    add_config(parser, needed)
    check_backbone_keys(base.backbone.name, [key for key, _ in options_of(rest)], COMMAND_LINE)
    given = parse(parser, rest, defaults=False)
    if given.dataset is None:
        del given["dataset"]  # a positional that is left out would override the file
    if given.get(WIDTH) is not None:
        if given.get(MATCH) is not None:
            raise two_widths(COMMAND_LINE)
        base[MATCH] = None  # a width on the command line overrides match_parameters in the file
    base.update(given)
    return instantiate(parser, base), base


def add_config(parser: ArgumentParser, needed: Sequence[str]) -> None:
    """Add `--config`, the last option of a parser of runs, and arrange the parser's help."""
    parser.add_argument("--config", type=Path, help="a YAML file of these keys; the command line goes on top")
    arrange(parser, needed, "data, files and seeds")


def default_parser(
    program: str, add_options: Callable[[ArgumentParser], None], needed: Sequence[str]
) -> ArgumentParser:
    """The parser of a command for runs, with the default backbone and objective."""
    parser = run_parser(program, DEFAULT_BACKBONE, DEFAULT_OBJECTIVE, DEFAULT_CONDITION)
    add_options(parser)
    add_config(parser, needed)
    return parser
