"""Values from users and files, validated by pydantic: types with bounds, YAML, JSON, and errors that name the key."""

import functools
import inspect
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints

import pydantic.dataclasses
import yaml
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PlainSerializer, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from decision_rnn.utils.errors import InputError, did_you_mean, reading

Record = TypeVar("Record")

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
"""The pydantic settings of all options."""
REQUIRED: Any = inspect.Parameter.empty
AUTO = math.inf
"""A target return above all others, written `auto`: the condition's limit decides what the agent sees."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def config_dataclass(cls: type[Record]) -> type[Record]:
    """Class decorator: a frozen dataclass whose values pydantic checks."""
    return pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=STRICT)(cls)  # type: ignore[return-value]


PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]


def to_plain(value: Any) -> Any:
    """A value as in a YAML file: dictionaries for configurations, numbers for numpy values, text for all else."""
    return to_jsonable_python(value, fallback=lambda each: each.tolist() if hasattr(each, "tolist") else str(each))


def _split_names(value: Any) -> Any:
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _split_numbers(value: Any) -> Any:
    if isinstance(value, str):
        return [parse_yaml(part) for part in value.strip("[] ").split(",") if part.strip()]
    return [value] if isinstance(value, int | float) else value


TargetReturn = Annotated[
    float,
    Field(allow_inf_nan=True),
    Field(gt=-math.inf),
    BeforeValidator(lambda value: AUTO if value == "auto" else value),
    PlainSerializer(lambda value: "auto" if value == AUTO else value),
]
"""A target return: a number, or `auto`."""
TargetReturns = Annotated[tuple[TargetReturn, ...], Field(min_length=1), BeforeValidator(_split_numbers)]
"""Target returns: a list, or one of them, or text such as `3600,auto`."""
Numbers = Annotated[float | Sequence[float], BeforeValidator(_split_numbers)]
"""Numbers: one, a list, or text such as `-1,2.5`."""
Names = Annotated[tuple[str, ...], BeforeValidator(_split_names)]
"""Names: a list, or text such as `a,b`."""
FileName = Annotated[str, AfterValidator(lambda name: str(Path(name).absolute()) if Path(name).exists() else name)]
"""A path, made absolute if it exists, so that it is valid in any working folder; other names are unchanged."""


@dataclass(frozen=True)
class Option:
    """A key that may be set: its type, its default (`REQUIRED` if it has none) and its description."""

    hint: Any
    default: Any
    help: str


@functools.cache
def options_of(declaration: Callable[..., Any]) -> dict[str, Option]:
    """What a dataclass or a function takes, by name, described under `Attributes:` or `Args:` of its docstring, in
    Google's style, and those of its base classes."""
    described: dict[str, str] = {}
    for owner in reversed(inspect.getmro(declaration) if isinstance(declaration, type) else (declaration,)):
        docstring = inspect.cleandoc(owner.__doc__ or "") + "\n"
        section = re.search(r"^(?:Attributes|Args):\n((?: +.*\n|\n)*)", docstring, re.MULTILINE)
        entries = re.split(r"^    (\w+(?:, \w+)*): ", section[1] if section else "", flags=re.MULTILINE)[1:]
        described |= {name: " ".join(text.split()) for name, text in zip(entries[::2], entries[1::2], strict=True)}
    hints = get_type_hints(declaration, include_extras=True)
    parameters = inspect.signature(declaration).parameters
    return {name: Option(hints[name], each.default, described.get(name, "")) for name, each in parameters.items()}


def convert(value: Any, hint: Any, key: str = "") -> Any:
    """A value as one of a type; text may be YAML, such as 1e3, null or [3, 5].

    Raises:
        InputError: If it is none; the message names the key.
    """
    try:
        return TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        if isinstance(value, str) and not isinstance(parsed := parse_yaml(value), str):
            return convert(parsed, hint, key)
        raise InputError(describe_error(error, key)) from None


def describe_error(error: ValidationError, *section: str) -> str:
    """The first error, in one line with the key in front."""
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in (*section, *first["loc"]) if part != "")
    if first["type"] == "value_error":  # raised by a check of ours, which names its keys
        return str(first["ctx"]["error"])
    value = "" if first["type"] == "missing" else f", got {first['input']!r:.100}"
    return f"{key}: {first['msg']}{value}".removeprefix(": ")


def suggest(key: str, known: Sequence[str]) -> str:
    """`Did you mean KEY? `, for a misspelt key or one of another section; empty if no known key is similar."""
    last = key.rpartition(".")[2]
    elsewhere = [other for other in known if other.rpartition(".")[2] == last]
    return did_you_mean(key, elsewhere, 0) or did_you_mean(key, known, 0.75)


def format_target(target_return: float) -> str:
    """A target return as users write it."""
    return "auto" if target_return == AUTO else f"{target_return:.6g}"


class _Loader(yaml.SafeLoader):
    """Reads 1e-4 as a number, as YAML 1.2 does."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+"), list("-+0123456789")
)


def parse_yaml(text: str) -> Any:
    """The value that text has in YAML; the text itself if it is not YAML."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


def read_yaml(path: Path) -> dict[str, Any]:
    """A configuration file as a dictionary; InputError if it cannot be read as one."""
    with reading(path, "a configuration", "Correct it, or name another."):
        return convert(yaml.load(path.read_text(), _Loader) or {}, dict[str, Any], str(path))


def to_json(record: Any) -> dict[str, Any]:
    """A dataclass as plain JSON values, such as `auto` for an infinite target return."""
    return TypeAdapter(type(record)).dump_python(record, mode="json")


def read_record(data: Any, kind: type[Record]) -> Record:
    """A dataclass from the values of a JSON file; ValueError if a key is missing or a value has another type.

    Keys that the dataclass lacks are ignored: a later version may write more of them.
    """
    return TypeAdapter(kind).validate_python(data)


def read_json(path: Path, kind: type[Record], remedy: str) -> Record:
    """The dataclass that a JSON file holds; InputError if it cannot be read."""
    with reading(path, f"a {kind.__name__.strip('_').lower()}", remedy):
        return read_record(json.loads(path.read_bytes()), kind)
