"""Parses the variants of a comparison from its command line, whose keys override those of its YAML file."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from decision_rnn.cli.arguments import BACKBONE, parse_run
from decision_rnn.cli.words import take
from decision_rnn.comparison.variants import DEFAULT_BACKBONES, Variant, add_controls, make_variants, part_keys
from decision_rnn.config import RunConfig
from decision_rnn.errors import InputError
from decision_rnn.parsing import COMMAND_LINE, options_of, read_yaml, split_names


def parse_variants(
    program: str, arguments: Sequence[str], add_options: Callable[[ArgumentParser], None], needed: Sequence[str] = ()
) -> tuple[list[Variant], list[str], Namespace]:
    """The variants that a command line describes, controls last, the datasets' names, and the command's own options.

    Args:
        program: The command's name, for its help.
        arguments: The words after the command's name.
        add_options: Adds the command's own options.
        needed: The keys that `--help` shows first.

    Raises:
        InputError: If a file or key is invalid; the message names it.
    """
    asked, _ = take(arguments, BACKBONE, "--config", "--backbones")
    if asked.backbone is not None:
        raise InputError("command line: compare takes --backbones, names with commas between them, and no --backbone")
    source = COMMAND_LINE if asked.config is None else asked.config
    shared, own = part_keys(read_yaml(Path(asked.config)), source) if asked.config is not None else ({}, {})
    text = shared.get("backbones", "" if own else DEFAULT_BACKBONES) if asked.backbones is None else asked.backbones
    names, option = split_names(str(text)), "command line: --backbones"
    if not names and asked.backbones is not None:
        raise InputError(f"{option} names none: give some, such as --backbones mingru,lru")
    commands: list[Namespace] = []

    def configure(data: Mapping[str, Any], where: str, known: Collection[str] | None) -> RunConfig:
        words = arguments if known is None else _without_backbone_keys(arguments, known)
        config, command = parse_run(program, words, add_options, (data, where), needed)
        commands.append(command)
        return config

    variants = make_variants(shared, own, names, source, option, configure)
    command = commands[0]
    variants = add_controls(variants, command.controls, shared, source, configure)
    datasets = split_names(variants[0].config.dataset)
    if not datasets:
        raise InputError(f"no dataset was named: give one, such as `{program} hopper-medium`")
    return variants, datasets, command


def _without_backbone_keys(arguments: Sequence[str], known: Collection[str]) -> list[str]:
    """The command line without backbone options, except for the known ones."""
    foreign = [f"--{key}" for key, _ in options_of(arguments) if key.startswith("backbone.") and key[9:] not in known]
    return take(arguments, *dict.fromkeys(foreign))[1]
