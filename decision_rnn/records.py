"""Reading of JSON into dataclasses: results, comparisons, and what a checkpoint says of its data."""

import json
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from decision_rnn.errors import InputError

Record = TypeVar("Record")


def read_json(path: Path, remedy: str) -> Any:
    """The content of a JSON file; InputError, as from `damaged`, if it cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise damaged(str(path), error, remedy) from None


def read_record(data: Any, kind: type[Record]) -> Record:
    """A dataclass from the values of a JSON file: its annotations say what nested values become.

    Values that are dataclasses already, such as a configuration read by its own parser, are kept. Keys that the
    dataclass lacks are ignored: a later version may write more of them.

    Raises:
        ValueError: If a key is missing or a value has another type.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def damaged(source: str, error: Exception, remedy: str) -> InputError:
    """The error for a file that is missing or damaged, and what to do about it."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return InputError(f"{source} is missing or damaged ({reason or type(error).__name__}): {remedy}")
