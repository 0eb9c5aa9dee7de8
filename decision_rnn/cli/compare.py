"""`decision-rnn compare`: variants over datasets and seeds, and their tables."""

import argparse
import shlex
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from decision_rnn.api import comparing
from decision_rnn.backbones import registered_names
from decision_rnn.cli.arguments import run_parser
from decision_rnn.cli.parser import CommandParser
from decision_rnn.cli.variants import parse_variants
from decision_rnn.comparison.compare import compare
from decision_rnn.comparison.executors.contract import Executor
from decision_rnn.comparison.plan import CHECKPOINT_EPISODES, Plan
from decision_rnn.comparison.variants import CONTROLS, DEFAULT_BACKBONES
from decision_rnn.errors import InputError

PROGRAM = "decision-rnn compare"
COMMON = ("training.steps",)


def run(arguments: Sequence[str]) -> int:
    """Run what is missing and print the tables; returns 1 if runs failed. Raises InputError for invalid input."""
    plan, command = plan_of(arguments)
    comparison = compare(plan, executor_of(plan, command), shlex.join([*PROGRAM.split(), *arguments]))
    print(comparison)
    print(f"written to {plan.output}: comparison.json, episodes.csv and comparison.md")
    if comparison.failed:
        print(f"{len(comparison.failed)} of the runs failed, as said above: the same command tries again")
    return 1 if comparison.failed else 0


def plan_of(arguments: Sequence[str]) -> tuple[Plan, Namespace]:
    """The plan that a command line describes, and the command's own options."""
    variants, datasets, command = parse_variants(PROGRAM, arguments, _options, COMMON)
    if command.ray_address is not None and command.executor != "ray":
        raise InputError("command line: --ray_address is for --executor ray: give both or neither")
    plan = comparing.plan_of(
        variants, datasets, command.seeds, command.output, command.checkpoint_episodes, command.jobs
    )
    return plan, command


def parser() -> CommandParser:
    """The parser of the command, with the default backbone."""
    return run_parser(PROGRAM, _options, COMMON)


def executor_of(plan: Plan, command: Namespace) -> Executor:
    """The executor that the command line selects."""
    return comparing.executor_of(plan, command.jobs, command.executor, command.ray_address)


def _options(parser: CommandParser) -> None:
    parser.epilog = "`decision-rnn compare --backbones NAME --help` shows the options of that backbone."
    parser.add_argument("--backbone", help=argparse.SUPPRESS)  # a variant's; `--backbones` takes its place
    parser.add_argument(
        "dataset", nargs="?", help="the datasets' names with commas between them, such as hopper-medium,walker2d-medium"
    )
    known = ", ".join(registered_names())
    add = parser.add_argument
    text = f"a variant for each: {known} (default: {DEFAULT_BACKBONES}, or none if the file has variants)"
    add("--backbones", type=str, metavar="A,B", help=text)
    add("--controls", type=str, default=",".join(CONTROLS), metavar="A,B", help="controls to compare with, or none")
    add("--seeds", type=int, default=3, help="seeds of every variant on every dataset, from `seed` on")
    text = "episodes by which every checkpoint is evaluated"
    add("--checkpoint_episodes", type=int, default=CHECKPOINT_EPISODES, help=text)
    add("--jobs", type=int, help="runs at the same time (default: one for each core)")
    add("--executor", type=Literal["local", "ray"], default="local", help="where the runs are made")
    add("--ray_address", help="address of a running Ray cluster (default: one on this machine)")
    add("--output", type=Path, help="folder of the runs (default: runs/compare-DATASET)")
