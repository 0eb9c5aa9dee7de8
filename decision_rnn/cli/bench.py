"""`decision-rnn bench`: run one benchmark and print it as a table, optionally with JSON."""

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser

from decision_rnn.bench import BENCHES
from decision_rnn.bench.measure import format_rows, write_rows
from decision_rnn.cli.help import arrange
from decision_rnn.cli.words import command_parser, parse_command
from decision_rnn.errors import InputError, did_you_mean
from decision_rnn.files import check_destination


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
    words, keys = _parser(name)
    command = parse_command(words, rest)
    if command.rounds < 1:
        raise InputError(f"--rounds is {command.rounds}: it must be at least 1")
    if command.json:
        check_destination(command.json)
    rows = BENCHES[name](**{key: command[key] for key in keys})
    print(format_rows(rows))
    if command.json:
        write_rows(command.json, rows)


def parsers() -> dict[str, ArgumentParser]:
    """The parsers of the command, one per benchmark."""
    return {name: _parser(name)[0] for name in BENCHES}


def _parser(name: str) -> tuple[ArgumentParser, list[str]]:
    """The parser of a benchmark, and the keys of its parameters."""
    parser = command_parser(f"decision-rnn bench {name}")
    keys = parser.add_function_arguments(BENCHES[name])
    parser.add_argument("--json", type=Path | None, help="also write the rows to this file")
    return arrange(parser, keys), keys
