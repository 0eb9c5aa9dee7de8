"""`decision-rnn compare`: variants over datasets and seeds, and their tables."""

import contextlib
import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping

from decision_rnn.cli.parser import CommandParser
from decision_rnn.comparison.compare import OPTIONS, compare, list_commands, make_plan, run_plan
from decision_rnn.comparison.executors import LOG
from decision_rnn.comparison.plan import Plan
from decision_rnn.config import flatten, overlay
from decision_rnn.utils.errors import InputError

PROGRAM = "decision-rnn compare"


def add_arguments(parser: CommandParser) -> None:
    text = "the datasets' names with commas between them, such as standin/hopper-medium,standin/walker2d-medium"
    parser.add_argument("dataset", nargs="?", help=text)
    parser.add_settings(compare, *OPTIONS)
    text = "print the commands of the missing runs, to be started elsewhere, such as by SLURM, and exit"
    parser.add_argument("--print_commands", action="store_true", help=text)


def run(command: Namespace) -> int:
    """Train what is missing and print the tables; returns 1 if runs failed."""
    if command.print_commands:
        with contextlib.redirect_stdout(sys.stderr):  # messages about the data go to stderr
            commands = list_commands(make_command_plan(command))
        for line in commands:
            print(line)
        return 0
    plan = make_command_plan(command)
    comparison = run_plan(plan, f"{PROGRAM} {shlex.join(command.words)}")
    print(comparison)
    print(f"written to {plan.output}: comparison.json, comparison.md, report.html, scores.svg and config.yaml")
    if comparison.failed:
        logs = ", ".join(str(plan.output / failure.run / LOG) for failure in comparison.failed[:3])
        print(f"{len(comparison.failed)} of the runs failed, see {logs}. The same command trains them again.")
    return 1 if comparison.failed else 0


def make_command_plan(command: Namespace) -> Plan:
    """The plan that a command line describes."""
    keys, overrides = command.options | command.settings, command.overrides
    if "backbone.name" in overrides:
        raise InputError("compare takes --backbones, such as --backbones mingru,lru, not --backbone")
    if command.dataset is not None:
        keys.pop("dataset", None)
        keys["datasets"] = command.dataset
    if isinstance(variants := keys.get("variants"), Mapping):  # the command line overrides their keys too
        shared = dict.fromkeys(overrides)
        keys["variants"] = {
            label: {key: value for key, value in overlay(flatten(own), shared).items() if key not in shared}
            if isinstance(own, Mapping)
            else own
            for label, own in variants.items()
        }
    return make_plan(keys, str(command.config or PROGRAM))
