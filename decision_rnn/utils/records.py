"""Results as JSON files, read by pydantic."""

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from decision_rnn.utils.errors import InputError, one_line

Record = TypeVar("Record")


def to_json(record: Any) -> dict[str, Any]:
    """A dataclass as plain JSON values, such as `auto` for an infinite target return."""
    return TypeAdapter(type(record)).dump_python(record, mode="json")


def read_record(data: Any, kind: type[Record]) -> Record:
    """A dataclass from the values of a JSON file; ValueError if a key is missing or a value has another type.

    Keys that the dataclass lacks are ignored: a later version may write more of them.
    """
    return TypeAdapter(kind).validate_python(data)


def read_file(path: Path, kind: type[Record], remedy: str, schema: int | None = None) -> Record:
    """The dataclass that a JSON file holds; InputError, as from `damaged`, if it cannot be read or has another
    `schema`."""
    try:
        data = json.loads(path.read_bytes())
        if schema is not None and data["schema"] != schema:
            raise InputError(f"schema {data['schema']}, expected {schema}")
        return read_record(data, kind)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise damaged(path, error, remedy) from None


def damaged(path: Path, error: Exception, remedy: str) -> InputError:
    """The error for a file that is missing or damaged, and what to do about it."""
    return InputError(f"{path} is missing or damaged ({one_line(error)}): {remedy}")
