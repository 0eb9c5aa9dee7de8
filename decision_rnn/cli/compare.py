"""`decision-rnn compare`: variants over datasets and seeds, and their tables."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from decision_rnn.cli.parser import CommandParser, announce_standin, parse_as
from decision_rnn.comparison.compare import OPTIONS, compare, list_commands, make_plan, run_plan
from decision_rnn.comparison.plan import Plan
from decision_rnn.comparison.record import LOG
from decision_rnn.config import flatten, overlay
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import options_of, split_names

PROGRAM = "decision-rnn compare"


def run(arguments: Sequence[str]) -> int:
    """Train what is missing and print the tables; returns 1 if runs failed. Raises InputError for invalid input."""
    plan, prints_commands = plan_of(arguments)
    if prints_commands:
        print("\n".join(list_commands(plan)))
        return 0
    comparison = run_plan(plan, shlex.join([*PROGRAM.split(), *arguments]))
    print(comparison)
    print(f"written to {plan.folder}: comparison.json, comparison.md and scores.svg")
    if comparison.failed:
        logs = ", ".join(str(plan.folder / failure.run / LOG) for failure in comparison.failed[:3])
        print(f"{len(comparison.failed)} of the runs failed, see {logs}. The same command trains them again.")
    return 1 if comparison.failed else 0


def plan_of(arguments: Sequence[str]) -> tuple[Plan, bool]:
    """The plan that a command line describes, and whether only its commands are to be printed."""
    command = parser().read(arguments)
    options, overrides = dict(command.options), command.overrides
    if "backbone.name" in overrides:
        raise InputError("compare takes --backbones, such as --backbones mingru,lru, not --backbone")
    if command.dataset is not None:
        options = {key: value for key, value in options.items() if key != "dataset"} | {
            "datasets": split_names(command.dataset)
        }
        for name in options["datasets"]:
            announce_standin(name)
    if isinstance(variants := options.get("variants"), Mapping):  # the command line overrides their keys too
        shared = dict.fromkeys(overrides)
        options["variants"] = {
            label: {key: value for key, value in overlay(flatten(keys), shared).items() if key not in shared}
            if isinstance(keys, Mapping)
            else keys
            for label, keys in variants.items()
        }
    given = {name: value for name in OPTIONS if (value := getattr(command, name)) is not None}
    return make_plan(options | given, str(command.config or PROGRAM)), command.print_commands


def parser() -> CommandParser:
    parser = CommandParser(PROGRAM, "Train and evaluate variants on datasets with several seeds.", takes_run=True)
    text = "the datasets' names with commas between them, such as standin/hopper-medium,standin/walker2d-medium"
    parser.add_argument("dataset", nargs="?", help=text)
    for name, option in options_of(compare).items():
        if name in OPTIONS:  # without defaults, since a file's values take their place
            default = ",".join(option.default) if isinstance(option.default, tuple) else option.default
            text = option.help if default is None else f"{option.help} (default: {default})"
            kind = Path if name == "output" else str if name in ("backbones", "controls") else option.hint
            parser.add_argument(f"--{name}", type=parse_as(kind), metavar=name.upper(), help=text.replace("%", "%%"))
    text = "print the commands of the missing runs, to be started elsewhere, such as by SLURM, and exit"
    parser.add_argument("--print_commands", action="store_true", help=text)
    return parser
