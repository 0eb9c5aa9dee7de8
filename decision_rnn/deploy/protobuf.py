"""A minimal protocol buffers reader, to check a policy file before onnxruntime loads it.

onnxruntime does not need the protobuf package, so the runtime should not need it either. A message is a sequence of
fields, each with a number, a wire type and a value. The message's definition gives the meaning of the numbers, for ONNX
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from collections.abc import Iterator

Value = int | memoryview

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """The bytes are not a valid message."""


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """The fields of a message in order, as number and value: an int, or the bytes without copying them.

    Raises:
        WireError: If a field does not end within the message, or its wire type is unknown.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if wire == BYTES:
            length, at = _varint(message, at)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise WireError(f"wire type {wire} at byte {at}")
        if number == 0 or length > len(message) - at:
            raise WireError(f"a field of {length} bytes at byte {at} of {len(message)}")
        yield number, message[at : at + length]
        at += length


def gathered(message: memoryview) -> dict[int, list[Value]]:
    """The fields of a message, grouped by number."""
    values: dict[int, list[Value]] = {}
    for number, value in fields(message):
        values.setdefault(number, []).append(value)
    return values


def nested(values: dict[int, list[Value]], number: int) -> list[memoryview]:
    """The values of a field that holds messages, strings or bytes; WireError if one is a number."""
    found = []
    for value in values.get(number, ()):
        if isinstance(value, int):
            raise WireError(f"field {number} is a number")
        found.append(value)
    return found


def number_of(values: dict[int, list[Value]], number: int, default: int = 0) -> int:
    """The value of a field that holds one number; the last if it is repeated."""
    value = values.get(number, [default])[-1]
    if not isinstance(value, int):
        raise WireError(f"field {number} is no number")
    return value


def texts_of(values: dict[int, list[Value]], number: int) -> list[str]:
    """The values of a field that holds strings."""
    try:
        return [bytes(value).decode() for value in nested(values, number)]
    except UnicodeDecodeError:
        raise WireError(f"field {number} is no text") from None


def text_of(values: dict[int, list[Value]], number: int) -> str:
    """The value of a field that holds one string; empty if the field is missing."""
    return (texts_of(values, number) or [""])[-1]


def numbers_of(values: dict[int, list[Value]], number: int) -> list[int]:
    """The values of a repeated field of numbers, packed or not, as signed 64-bit integers."""
    found: list[int] = []
    for value in values.get(number, ()):
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            one, at = _varint(value, at)
            found.append(one)
    return [one - (1 << 64) if one >> 63 else one for one in found]


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Read the varint at a position; returns its value and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise WireError("the message ends within a number")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
    raise WireError(f"a number of more than 64 bits before byte {at}")
