"""`decision-rnn compare`: variants over datasets and seeds, and their tables."""

import argparse
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from decision_rnn.cli.arguments import read_words, run_parser
from decision_rnn.cli.parser import CommandParser
from decision_rnn.comparison import comparing
from decision_rnn.config import flatten, overlay
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import COMMAND_LINE, options_of, split_names

if TYPE_CHECKING:
    from decision_rnn.comparison.plan import Plan

PROGRAM = "decision-rnn compare"
COMMON = ("training.steps",)


def run(arguments: Sequence[str]) -> int:
    """Train what is missing and print the tables; returns 1 if runs failed. Raises InputError for invalid input."""
    plan, command = plan_of(arguments)
    from decision_rnn.comparison.compare import compare, list_commands  # here: slow, and not needed for `--help`
    from decision_rnn.comparison.record import LOG

    if command.print_commands:
        print("\n".join(list_commands(plan)))
        return 0
    comparison = compare(plan, shlex.join([*PROGRAM.split(), *arguments]))
    print(comparison)
    print(f"written to {plan.folder}: comparison.json, episodes.csv and comparison.md")
    if comparison.failed:
        logs = ", ".join(str(plan.folder / failure.run / LOG) for failure in comparison.failed[:3])
        print(
            f"{len(comparison.failed)} of the runs failed, see {logs}: mend the cause, and the same command trains them"
        )
    return 1 if comparison.failed else 0


def plan_of(arguments: Sequence[str]) -> "tuple[Plan, Namespace]":
    """The plan that a command line describes, and the command's own options."""
    keys, words, command = read_words(PROGRAM, arguments, _options, COMMON)
    if "backbone.name" in words:
        raise InputError(f"{COMMAND_LINE}: compare takes --backbones, such as --backbones mingru,lru, not --backbone")
    from decision_rnn.data.names import check_name  # here: slow, and not needed for `--help`

    for name in split_names(command.dataset):
        check_name(name)  # before torch is imported, which takes seconds
    source = COMMAND_LINE if command.config is None else str(command.config)
    keys = overlay(keys, words)
    if "dataset" in words:
        keys.pop("datasets", None)
    if isinstance(own := keys.get("variants"), Mapping):  # the command line overrides their keys too
        for label, of in own.items():
            if isinstance(of, Mapping):
                kept = overlay(flatten(of), words)
                keys["variants"] = {**keys["variants"], label: {key: kept[key] for key in kept if key not in words}}
    given = {name: value for name in comparing.OPTIONS if (value := getattr(command, name)) is not None}
    return comparing.plan(keys | given, source), command


def parser() -> CommandParser:
    """The parser of the command, with the default backbone."""
    return run_parser(PROGRAM, _options, COMMON, {})


def _options(parser: CommandParser) -> None:
    parser.epilog = "`decision-rnn compare --backbones NAME --help` shows the options of that backbone."
    parser.add_argument("--backbone", help=argparse.SUPPRESS)  # a variant's; `--backbones` takes its place
    parser.add_argument(
        "dataset", nargs="?", help="the datasets' names with commas between them, such as hopper-medium,walker2d-medium"
    )
    for name, option in options_of(comparing.compare).items():
        if name in comparing.OPTIONS:  # without defaults, since a file's values take their place
            default = ",".join(option.default) if isinstance(option.default, tuple) else option.default
            text = option.help if default is None else f"{option.help} (default: {default})"
            hint = Path | None if name == "output" else str | None if name in ("backbones", "controls") else option.hint
            parser.add_options([replace(option, hint=hint, default=None, help=text)])
    text = "print the commands of the missing runs, to be started elsewhere, such as by SLURM, and exit"
    parser.add_argument("--print_commands", action="store_true", help=text)
