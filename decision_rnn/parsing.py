"""Parsing of keys and values from a command line or a file, with errors of one sentence.

jsonargparse's own messages take many lines and do not say where the value came from, so the invalid key is searched for
here, one key after the other.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import zip_longest
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import yaml
from jsonargparse import ArgumentError, ArgumentParser, Namespace

from decision_rnn.errors import InputError, did_you_mean

Record = TypeVar("Record", bound=Any)

COMMAND_LINE = "command line"
UNUSABLE = (ArgumentError, OverflowError)  # the latter for integers too large for a float
LARGEST = 2**63 - 1  # the largest integer in torch
KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
    NoneType: "null",
    tuple[float, ...]: "a list of numbers, such as [3600, 1800]",
    tuple[str, ...]: "a list of names, such as [a, b]",
}


def parse(parser: ArgumentParser, arguments: Sequence[str], defaults: bool = True) -> Namespace:
    """Parse a command line.

    Args:
        parser: The command's parser.
        arguments: The words of the command line.
        defaults: Whether keys that are not given take the parser's defaults or are left out.

    Raises:
        InputError: If a key or value is invalid; the message names the key.
    """
    given = options_of(arguments)
    known = [option[2:] for action in parser._actions for option in action.option_strings]
    check_known(parser, (key for key, _ in given), [key for key in known if not _is_group(key, known)], COMMAND_LINE)
    try:
        return parser.parse_args(list(arguments), defaults=defaults)
    except UNUSABLE as error:
        raise _explain(parser, error, given, COMMAND_LINE) from None


def parse_keys(parser: ArgumentParser, data: Mapping[str, Any], source: str) -> Namespace:
    """The parser's defaults, overridden by the keys and values of a file; an InputError names `source` and the key."""
    known = [action.dest for action in parser._actions if action.dest != "help"]
    groups = [key for key in known if _is_group(key, known)]
    given: list[tuple[str, Any]] = []
    for name, section in data.items():
        if name not in groups:
            given.append((str(name), section))
        elif isinstance(section, Mapping):
            given += [(f"{name}.{key}", value) for key, value in section.items()]
        else:
            raise InputError(f"{source}: {name} is {section!r:.100}: it must hold keys and values")
    check_known(parser, (key for key, _ in given), known, source)
    types = _types(parser)
    for key, value in given:  # jsonargparse accepts null for every key
        if value is None and types[key] is not None and NoneType not in get_args(types[key]):
            raise InputError(f"{source}: {key} is null: it must be {_kind(types[key])}")
    try:
        return parser.parse_object(dict(given))
    except UNUSABLE as error:
        raise _explain(parser, error, given, source) from None


def split_names(text: str | None) -> list[str]:
    """The names in `a,b`."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def read_yaml(path: Path) -> dict[str, Any]:
    """A configuration file as a dictionary."""
    try:
        data = yaml.safe_load(path.read_text())
    except OSError as error:
        raise InputError(f"cannot read the configuration {path}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # not text, not YAML, or a date such as 2000-13-13
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise InputError(f"{path} holds a {type(data).__name__}: it must hold keys and values")
    return data


def options_of(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """The options of a command line, each with the word that follows it, which after a flag is the next option."""
    given = []
    for word, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        if word == "--":
            break
        if word.startswith("--"):
            key, equals, value = word[2:].partition("=")
            given.append((key, value if equals else following))
    return given


def check_known(parser: ArgumentParser, keys: Iterable[str], known: Sequence[str], source: str) -> None:
    """InputError for the first key that is not among the known ones."""
    for key in keys:
        if key not in known:
            hint = did_you_mean(key, known, 0.75)
            raise InputError(f"{source}: unknown key {key!r:.100}; {hint}`{parser.prog} --help` lists the keys")


def check_numbers(values: Namespace, endless: Iterable[str] = ()) -> None:
    """InputError for a number too large for torch or not finite; keys in `endless` may be infinite."""
    for key, value in values.items():
        finite = not isinstance(value, float) or math.isfinite(value) or (value == math.inf and key in endless)
        if not finite or (isinstance(value, int) and abs(value) > LARGEST):
            raise InputError(f"{key} is {value}: it must be a finite number of at most {LARGEST}")


def check_types(record: Record) -> Record:
    """Return a dataclass whose values were read from JSON; TypeError if one is not of its field's type."""
    for field in fields(record):
        check_type(getattr(record, field.name), field.type)
    return record


def check_type(value: Any, hint: Any) -> Any:
    """Return a value that was read from JSON; TypeError if it is not of that type. A float may be a whole number."""
    if not _is_of_type(value, hint):
        raise TypeError(f"{value!r:.100} is not {_kind(hint)}")
    return value


def _is_of_type(value: Any, hint: Any) -> bool:
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(_is_of_type(value, part) for part in parts)
    if kind is tuple:  # tuple[part, ...]
        return isinstance(value, tuple) and all(_is_of_type(item, parts[0]) for item in value)
    return type(value) in ((int, float) if hint is float else (kind or hint,))  # not isinstance: bool is not a number


def parse_count(written: int | str, key: str) -> int:
    """600000, `600k` or `0.6M` as a number; InputError if it is not a number of parameters."""
    parts = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)([km]?)", str(written).replace("_", ""), re.IGNORECASE | re.ASCII)
    count = round(float(parts[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[parts[2].lower()]) if parts else 0
    if count < 1:
        raise InputError(f"{key} is {str(written)!r:.100}: it must be a number of parameters: 600000, 600k or 0.6M")
    return count


def _is_group(key: str, known: Iterable[str]) -> bool:
    """Whether a key is a group of other keys."""
    return any(other.startswith(f"{key}.") for other in known)


def _explain(parser: ArgumentParser, error: Exception, given: Iterable[tuple[str, Any]], source: str) -> InputError:
    """The error, in one sentence, for what a parser rejected."""
    types = _types(parser)
    for key, value in given:
        kind = types.get(key, types.get(key.replace("-", "_")))
        if kind is None:
            continue
        alone = ArgumentParser(exit_on_error=False)
        alone.add_argument("--value", type=kind)
        try:
            alone.parse_object({"value": value})
        except UNUSABLE:
            return InputError(f"{source}: {key} is {value!r:.100}: it must be {_kind(kind)}")
    return InputError(f"{source}: {' '.join(str(error).split())}; `{parser.prog} --help` lists the keys")


def _types(parser: ArgumentParser) -> dict[str, Any]:
    """The type of every key; None for flags."""
    return {action.dest: getattr(action, "_typehint", None) for action in parser._actions}


def _kind(hint: Any) -> str:
    """A type in words, for messages."""
    if hint in KINDS:
        return KINDS[hint]
    if get_origin(hint) is Literal:
        return " or ".join(str(value) for value in get_args(hint))
    return " or ".join(_kind(part) for part in get_args(hint)) or str(hint)
