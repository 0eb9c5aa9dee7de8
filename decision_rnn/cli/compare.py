"""`decision-rnn compare`: several backbones over several seeds, and one table."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace

from decision_rnn.backbones import registered_names
from decision_rnn.cli.arguments import BACKBONE, parse_run, split_names, take
from decision_rnn.comparison.compare import compare
from decision_rnn.comparison.table import format_comparison
from decision_rnn.comparison.variants import Variant
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.environments import check_environment
from decision_rnn.errors import InputError
from decision_rnn.parsing import read_yaml

DEFAULT_BACKBONES = "mingru,minlstm,lru,transformer"


def run(arguments: Sequence[str]) -> None:
    """Train what is missing and print the table; InputError for what cannot be used."""
    asked, command = variants(arguments)
    first = asked[0].config
    if command.seeds < 1 or command.jobs < 1:
        raise InputError("command line: --seeds and --jobs must be at least 1")
    if not first.evaluation.episodes:
        raise InputError("evaluation.episodes is 0: a comparison needs at least 1 for each target return")
    dataset = open_dataset(first.dataset, first.path, first.partial)
    spec = dataset.spec
    check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
    output = command.output or Path("runs") / f"compare-{dataset.name.replace('/', '-')}"
    seeds = range(first.seed, first.seed + command.seeds)
    comparison = compare(asked, seeds, output, command.jobs)
    print(format_comparison(comparison))
    print(f"written to {output / 'comparison.json'} and {output / 'comparison.md'}")
    if comparison["failed"]:
        raise InputError(f"{len(comparison['failed'])} of the runs failed, as said above: the same command tries again")


def variants(arguments: Sequence[str]) -> tuple[list[Variant], Namespace]:
    """A variant for each of `--backbones`, parsed with that backbone's own keys, and the command's options."""
    asked, _ = take(arguments, "--backbones", BACKBONE, "--config")
    if asked.backbone is not None:
        raise InputError("command line: compare takes --backbones, names with commas between them, and no --backbone")
    file = read_yaml(Path(asked.config)) if asked.config is not None else {}
    names = split_names(str(file.get("backbones", DEFAULT_BACKBONES)) if asked.backbones is None else asked.backbones)
    if not names:
        raise InputError("command line: --backbones names none: give some, such as --backbones mingru,lru")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"command line: --backbones names {name} twice")
    parsed = [parse_run("decision-rnn compare", arguments, _options, backbone=name) for name in names]
    return [Variant(name, config) for name, (config, _) in zip(names, parsed, strict=True)], parsed[0][1]


def _options(parser: ArgumentParser) -> None:
    for action in parser._actions:
        if action.dest in ("backbone", "backbone.name"):
            action.help = argparse.SUPPRESS
    parser.epilog = "`decision-rnn compare --backbones NAME --help` shows the options of that backbone."
    known = ", ".join(registered_names())
    parser.add_argument("--backbones", type=str, default=DEFAULT_BACKBONES, metavar="A,B", help=f"which ones: {known}")
    parser.add_argument("--seeds", type=int, default=3, help="seeds per backbone, from `seed` on")
    parser.add_argument("--jobs", type=int, default=1, help="runs trained at the same time")
    parser.add_argument("--output", type=Path | None, help="folder of the runs (default: runs/compare-DATASET)")
