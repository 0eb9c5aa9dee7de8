"""`PYTHONPATH=scripts python -m bench NAME`: run one benchmark and print it as a table, optionally with JSON."""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench import BENCHES, bench_of
from decision_rnn.cli.parser import CommandParser, parse_as
from decision_rnn.utils.errors import InputError, did_you_mean
from decision_rnn.utils.files import check_destination
from decision_rnn.utils.parsing import options_of


def run(arguments: Sequence[str]) -> None:
    """Run the benchmark named by the first argument; its parameters are options."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m bench NAME ...\n")
        print(*(f"  {name:<11}{measured}" for name, measured in BENCHES.items()), sep="\n")
        print("\n`python -m bench NAME --help` shows a benchmark's options.")
        return
    name, *rest = arguments
    if name not in BENCHES:
        raise InputError(f"unknown benchmark {name!r}: {did_you_mean(name, BENCHES)}known are {', '.join(BENCHES)}")
    command = _parser(name).read(rest)
    if command.json:
        check_destination(command.json)
    from bench.measure import format_rows, write_rows  # here: slow, and not needed for `--help`

    bench = bench_of(name)
    rows = bench(**{key: getattr(command, key) for key in options_of(bench)})
    print(format_rows(rows))
    if command.json:
        write_rows(command.json, rows)


def parsers() -> dict[str, CommandParser]:
    """The parsers of the command, one per benchmark."""
    return {name: _parser(name) for name in BENCHES}


def _parser(name: str) -> CommandParser:
    parser = CommandParser(f"python -m bench {name}")
    for key, option in options_of(bench_of(name)).items():
        kind, default = parse_as(option.hint), option.default
        parser.add_argument(f"--{key}", type=kind, default=default, metavar=key.upper(), help=option.help)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    return parser


if __name__ == "__main__":
    run(sys.argv[1:])
