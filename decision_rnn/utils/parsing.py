"""Keys and values as users write them: their types, their descriptions, and errors of one sentence about them."""

import functools
import inspect
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import docstring_parser
import msgspec
import yaml
from msgspec import Meta

from decision_rnn.utils.errors import InputError, did_you_mean

COMMAND_LINE = "command line"
MAX_INTEGER = 2**63 - 1  # torch's
REQUIRED: Any = inspect.Parameter.empty
BEST = math.inf
"""A target return above all others, spelt `best`: what an agent can reach limits it."""
TargetReturn = Annotated[float, Meta(description="best, or a number")]
PositiveInt = Annotated[int, Meta(ge=1)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
    NoneType: "null",
    Sequence[int]: "a list of whole numbers, such as [3, 5]",
    TargetReturn: "best or a number",
    tuple[TargetReturn, ...]: "best, a number or a list of numbers, such as 3600,1800",
    tuple[str, ...]: "a list of names, such as [a, b]",
}
BOUNDS = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}
"""Bounds that a type may be annotated with, in words."""


@dataclass(frozen=True)
class Option:
    """A key that may be set: its type, its default (`REQUIRED` if it has none) and its description."""

    name: str
    hint: Any
    default: Any
    help: str


@functools.cache
def options_of(declaration: Callable[..., Any]) -> dict[str, Option]:
    """What a dataclass or a function takes, by name, described by its docstring and those of its base classes."""
    described: dict[str, str] = {}
    for part in reversed(inspect.getmro(declaration) if isinstance(declaration, type) else (declaration,)):
        parsed = docstring_parser.parse(part.__doc__ or "", docstring_parser.DocstringStyle.GOOGLE)
        described |= {entry.arg_name: " ".join((entry.description or "").split()) for entry in parsed.params}
    hints = get_type_hints(declaration, include_extras=True)
    parameters = inspect.signature(declaration).parameters.values()
    return {p.name: Option(p.name, hints[p.name], p.default, described.get(p.name, "")) for p in parameters}


def convert(value: Any, hint: Any, key: str, infinite: bool = False) -> Any:
    """A value from a file, a command line or a Python call as one of that type.

    Text may spell a number (3000, 1e3, 2k, 0.6M) or a list (3000,2000 or [3000, 2000]), and a number is also a list of
    one. A target return may be `best`.

    Raises:
        InputError: If it is none, or a number that torch cannot hold or, unless it may be `infinite`, that is not
            finite; the message names the key.
    """
    numpy = sys.modules.get("numpy")  # unless it is imported, the value is not of its types
    if numpy is not None and isinstance(value, numpy.generic):
        value = value.item()
    given = "null" if value is None else repr(value)
    if isinstance(value, str) and NoneType in get_args(hint) and value == "null":
        value = None
    elif isinstance(value, str) and hint == tuple[str, ...]:
        value = split_names(value)
    elif isinstance(value, str | int | float | list | tuple) and _takes(hint, tuple[TargetReturn, ...]):
        parts = re.sub(r"^\s*\[|\]\s*$", "", value).split(",") if isinstance(value, str) else value
        listed = parts if isinstance(parts, list | tuple) else [parts]
        value = [_parse_target(part) for part in listed if part != ""]
    elif isinstance(value, str) and _takes(hint, TargetReturn):
        value = _parse_target(value)
    elif isinstance(value, str) and not _takes_text(hint):
        value = _load(value)
    try:
        value = msgspec.convert(value, hint, dec_hook=lambda kind, value: kind(value))
    except msgspec.ValidationError:
        raise InputError(f"{key} is {given:.100}: it must be {describe(hint)}") from None
    infinite |= _takes(hint, TargetReturn)
    for number in value if isinstance(value, tuple) else [value]:
        finite = not isinstance(number, float) or math.isfinite(number) or (infinite and number == math.inf)
        if not finite or (isinstance(number, int) and abs(number) > MAX_INTEGER):
            raise InputError(f"{key} is {given:.100}: it must be a finite number of at most {MAX_INTEGER}")
    return value


def describe(hint: Any) -> str:
    """A type in words, for messages."""
    if hint in KINDS:
        return KINDS[hint]
    if get_origin(hint) is Annotated:
        kind, meta = get_args(hint)
        bounds = [f"{words} {bound:g}" for name, words in BOUNDS.items() if (bound := getattr(meta, name)) is not None]
        return f"{describe(kind)} {' and '.join(bounds)}".rstrip()
    if get_origin(hint) is Literal:
        return " or ".join(str(value) for value in get_args(hint))
    parts = [describe(part) for part in get_args(hint)]
    return (", or " if any("," in part for part in parts) else " or ").join(parts) or str(hint)


def suggest(key: str, known: Sequence[str]) -> str:
    """`did you mean KEY? `, for a misspelt key or one that belongs elsewhere; empty if no known key is similar."""
    last = key.rpartition(".")[2]
    elsewhere = [other for other in known if other.rpartition(".")[2] == last]
    return did_you_mean(key, elsewhere, 0) or did_you_mean(key, known, 0.75)


def format_target(target_return: float) -> str:
    """A target return as users write it."""
    return "best" if target_return == BEST else f"{target_return:.6g}"


def split_names(text: str | None) -> list[str]:
    """The names in `a,b`."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def read_yaml(path: Path) -> dict[str, Any]:
    """A configuration file as a dictionary."""
    try:
        data = yaml.load(path.read_text(), _Loader)
    except OSError as error:
        raise InputError(f"cannot read the configuration {path}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # not text, not YAML, or a date such as 2000-13-13
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise InputError(f"{path} holds a {type(data).__name__}: it must hold keys and values")
    return data


NUMBER = re.compile(r"([-+]?\d{1,15}(?:\.\d{1,15})?(?:e\d{1,2})?)([km])", re.IGNORECASE | re.ASCII)
"""A number of thousands or millions."""


def parse_count(written: int | str, key: str) -> int:
    """600000, `600k` or `0.6M` as a number; InputError if it is not a number of parameters."""
    number = _load(written) if isinstance(written, str) else written
    count = round(number) if isinstance(number, int | float) and 1 <= number <= MAX_INTEGER else 0
    if count < 1:
        raise InputError(f"{key} is {str(written)!r:.100}: it must be a number of parameters: 600000, 600k or 0.6M")
    return count


class _Loader(yaml.SafeLoader):
    """Reads 1e-4 as a number, as YAML 1.2 does."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+"), list("-+0123456789")
)


def _load(text: str) -> Any:
    """What YAML text spells, or a number of thousands or millions; the text itself if it is neither."""
    if parts := NUMBER.fullmatch(text.strip()):
        number = float(parts[1]) * {"k": 1e3, "m": 1e6}[parts[2].lower()]
        return int(number) if number.is_integer() else number
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


def _parse_target(written: Any) -> Any:
    return BEST if written == "best" else _load(written) if isinstance(written, str) else written


def _takes(hint: Any, kind: Any) -> bool:
    """Whether values of a type are of another, or contain such values."""
    return hint == kind or any(_takes(part, kind) for part in get_args(hint))


def _takes_text(hint: Any) -> bool:
    parts: Sequence[Any] = get_args(hint)
    return hint in (str, Path) or any(isinstance(part, str) or _takes_text(part) for part in parts)
