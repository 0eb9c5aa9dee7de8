"""`decision-rnn bench`: run one benchmark and print it as a table, optionally with JSON."""

from collections.abc import Sequence
from pathlib import Path

from decision_rnn.bench import BENCHES
from decision_rnn.bench.measure import format_rows, write_rows
from decision_rnn.cli.parser import CommandParser
from decision_rnn.errors import InputError, did_you_mean
from decision_rnn.files import check_destination
from decision_rnn.parsing import options_of


def run(arguments: Sequence[str]) -> None:
    """Run the benchmark named by the first argument; its parameters are options."""
    if arguments and arguments[0] in ("-h", "--help"):
        print(f"usage: decision-rnn bench NAME ...; NAME is one of {', '.join(BENCHES)}")
        return
    if not arguments or arguments[0] not in BENCHES:
        named = f"unknown benchmark {arguments[0]!r}" if arguments else "no benchmark was named"
        hint = did_you_mean(arguments[0], BENCHES) if arguments else ""
        raise InputError(f"{named}: {hint}known are {', '.join(BENCHES)}")
    name, *rest = arguments
    command = _parser(name).read(rest)
    if command.rounds < 1:
        raise InputError(f"command line: rounds is {command.rounds}: it must be at least 1")
    if command.json:
        check_destination(command.json)
    rows = BENCHES[name](**{key: getattr(command, key) for key in options_of(BENCHES[name])})
    print(format_rows(rows))
    if command.json:
        write_rows(command.json, rows)


def parsers() -> dict[str, CommandParser]:
    """The parsers of the command, one per benchmark."""
    return {name: _parser(name) for name in BENCHES}


def _parser(name: str) -> CommandParser:
    parser = CommandParser(f"decision-rnn bench {name}")
    parser.add_options(options_of(BENCHES[name]).values())
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    return parser
