"""Results as JSON: dataclasses whose target returns may be `auto`, which JSON has no number for."""

import json
import math
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from decision_rnn.utils.errors import InputError, one_line

Record = TypeVar("Record")
TARGETS = {"target_return", "target_returns"}


def encode_targets(value: Any, is_target: bool = False) -> Any:
    """Values for JSON, with infinite target returns as `auto`."""
    if isinstance(value, dict):
        return {key: encode_targets(entry, key in TARGETS) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [encode_targets(entry, is_target) for entry in value]
    return "auto" if is_target and value == math.inf else value


def _decode_targets(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    def decode(value: Any) -> Any:
        return [decode(each) for each in value] if isinstance(value, list) else math.inf if value == "auto" else value

    return {key: decode(value) if key in TARGETS else value for key, value in entries}


def read_json(path: Path, remedy: str) -> Any:
    """The content of a JSON file; InputError, as from `damaged`, if it cannot be read."""
    try:
        return json.loads(path.read_bytes(), object_pairs_hook=_decode_targets)
    except (OSError, ValueError) as error:
        raise damaged(path, error, remedy) from None


def read_record(data: Any, kind: type[Record]) -> Record:
    """A dataclass from the values of a JSON file; ValueError if a key is missing or a value has another type.

    Keys that the dataclass lacks are ignored: a later version may write more of them.
    """
    return TypeAdapter(kind).validate_python(data)


def damaged(path: Path, error: Exception, remedy: str) -> InputError:
    """The error for a file that is missing or damaged, and what to do about it."""
    return InputError(f"{path} is missing or damaged ({one_line(error)}): {remedy}")
