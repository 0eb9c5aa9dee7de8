"""Reading of JSON into dataclasses: results, comparisons, and what a checkpoint says of its data."""

import json
import math
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from decision_rnn.utils.errors import InputError

Record = TypeVar("Record")


TARGETS = {"target_return", "target_returns"}


def spelt(value: Any, target: bool = False) -> Any:
    """Values for JSON, which has no infinity: a target return without a number is `auto`, as users write it."""
    if isinstance(value, dict):
        return {key: spelt(part, key in TARGETS) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [spelt(part, target) for part in value]
    return "auto" if target and value == math.inf else value


def _read(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a JSON file, in which a target return may be spelt `auto`."""
    found = dict(entries)
    for key in found.keys() & TARGETS:
        asked = found[key]
        found[key] = [math.inf if of == "auto" else of for of in asked] if isinstance(asked, list) else asked
        found[key] = math.inf if asked == "auto" else found[key]
    return found


def read_json(path: Path, remedy: str) -> Any:
    """The content of a JSON file; InputError, as from `damaged`, if it cannot be read."""
    try:
        return json.loads(path.read_bytes(), object_pairs_hook=_read)
    except (OSError, ValueError) as error:
        raise damaged(str(path), error, remedy) from None


def read_record(data: Any, kind: type[Record]) -> Record:
    """A dataclass from the values of a JSON file: its annotations say what nested values become.

    Values that are dataclasses already, such as a configuration read by its own parser, are kept. Keys that the
    dataclass lacks are ignored: a later version may write more of them.

    Raises:
        ValueError: If a key is missing or a value has another type.
    """
    return TypeAdapter(kind).validate_python(data)


def damaged(source: str, error: Exception, remedy: str) -> InputError:
    """The error for a file that is missing or damaged, and what to do about it."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return InputError(f"{source} is missing or damaged ({reason or type(error).__name__}): {remedy}")
