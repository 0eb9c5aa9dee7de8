"""Parses the variants of a comparison from its command line, whose keys override those of its YAML file."""

from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from decision_rnn.cli.arguments import AddOptions, read_words
from decision_rnn.cli.parser import CommandParser
from decision_rnn.comparison.variants import (
    DEFAULT_BACKBONES,
    OPTIONS,
    Variant,
    add_controls,
    make_variants,
    part_keys,
)
from decision_rnn.config import RunConfig
from decision_rnn.config_parser import flatten, new_config, overlay
from decision_rnn.errors import InputError
from decision_rnn.parsing import COMMAND_LINE, convert, split_names


def parse_variants(
    program: str, arguments: Sequence[str], add_options: AddOptions, common: Sequence[str] = ()
) -> tuple[list[Variant], list[str], Namespace]:
    """The variants that a command line describes, controls last, the datasets' names, and the command's own options.

    Args:
        program: The command's name, for its help.
        arguments: The words after the command's name.
        add_options: Adds the command's own options.
        common: The keys that `--help` shows first.

    Raises:
        InputError: If a file or key is invalid; the message names it.
    """
    data, words, command = read_words(program, arguments, add_options, common)
    if "backbone.name" in words:
        raise InputError("command line: compare takes --backbones, names with commas between them, and no --backbone")
    source = COMMAND_LINE if command.config is None else str(command.config)
    shared, own = part_keys(data, source)

    def with_options_of_file(parser: CommandParser) -> None:
        add_options(parser)
        given = {name: shared.pop(name) for name in OPTIONS if name in shared}
        parser.set_defaults(**{key: convert(given[key], parser.hints[key], f"{source}: {key}") for key in given})

    command = read_words(program, arguments, with_options_of_file, common)[2]
    names, option = split_names(command.backbones), "command line: --backbones"
    if not names and command.backbones is not None:
        raise InputError(f"{option} names none: give some, such as --backbones mingru,lru")
    if command.backbones is None and not own:
        names = split_names(DEFAULT_BACKBONES)

    def configure(data: Mapping[str, Any], where: str, known: Collection[str] | None) -> RunConfig:
        def kept(key: str) -> bool:
            section, _, name = key.partition(".")
            return known is None or section != "backbone" or name in known

        return new_config(overlay(flatten(data, where), {k: v for k, v in words.items() if kept(k)}), where)

    variants = make_variants(shared, own, names, source, option, configure)
    variants = add_controls(variants, command.controls, shared, source, configure)
    return variants, split_names(variants[0].config.dataset), command
