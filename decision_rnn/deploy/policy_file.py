"""The file of an exported policy: its contents, and the checks that it must pass before onnxruntime loads it.

It is a self-contained ONNX model of one step of the agent that uses only ONNX's own operators. Its metadata:

    decision_rnn_format    version of this format
    decision_rnn           JSON: inputs and outputs, layout of the state, training data, scores, versions
    decision_rnn_sha256    checksum of the graph's bytes and that JSON, to detect damaged or altered files
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from decision_rnn.deploy.protobuf import (
    WireError,
    gathered,
    nested,
    number_of,
    numbers_of,
    text_of,
    texts_of,
)
from decision_rnn.errors import InputError

FORMAT = 1
FORMAT_KEY, POLICY_KEY, DIGEST_KEY = "decision_rnn_format", "decision_rnn", "decision_rnn_sha256"

LARGEST_FILE = 1 << 30
"""Largest size of a file in bytes; a larger one is not read. An agent has a few million parameters."""
LARGEST_ROW = 1 << 26
"""Largest size in bytes of one environment's inputs, state and action together."""
LARGEST_SHAPE = 1 << 26
"""Largest number of elements of a tensor whose shape is a constant of the graph."""

DTYPES = {"float32": (1, 4), "int64": (7, 8), "bool": (9, 1), "float64": (11, 8), "int32": (6, 4)}
"""The dtypes allowed for inputs and outputs: ONNX's number of the type, and its size in bytes."""
BITS = {1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 16: 16}
"""Size of a constant's elements in bits, by ONNX's number of their type."""
TYPED = {1: (4, 4), 11: (10, 8), 7: (7, 0), 6: (5, 0), 9: (5, 0), 12: (11, 0), 13: (11, 0)}
"""The fields of constants not stored as raw bytes: the field's number, and the bytes of an element, 0 for varints."""

FORBIDDEN = {"If", "Loop", "Scan", "SequenceMap", "Optional", "RandomNormal", "RandomUniform", "RandomNormalLike"}
FORBIDDEN |= {"RandomUniformLike", "Bernoulli", "Multinomial", "ImageDecoder", "StringSplit", "RegexFullMatch"}
"""Operators that no step needs: those that contain subgraphs, sample at random, or read images or text."""
SHAPED = {"ConstantOfShape": 0, "Expand": 1, "Tile": 1, "Range": 1}
"""Operators with an input that gives the size of the output, and the position of that input."""


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of the graph: its name, the numpy name of its dtype, and its shape without the batch."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class StateSpec:
    """A part of the policy's state.

    Attributes:
        input: The graph's input.
        output: The graph's output, which is the input at the next step.
        initial: (*shape), the value before an episode's first step.
    """

    input: TensorSpec
    output: TensorSpec
    initial: np.ndarray


@dataclass(frozen=True)
class PolicyFile:
    """A file that has passed the checks.

    Attributes:
        data: The bytes of the file.
        metadata: The JSON of its metadata, parsed.
        inputs: `obs`, `reward`, `reset` and `target_return`.
        actions: The first output.
        state: The parts of the state, in the order of inputs and outputs.
    """

    data: bytes
    metadata: dict[str, Any]
    inputs: tuple[TensorSpec, ...]
    actions: TensorSpec
    state: tuple[StateSpec, ...]


def digest(graph: bytes | memoryview, policy: str) -> str:
    """SHA-256 of the graph's bytes and the JSON of the metadata."""
    hashed = hashlib.sha256(graph)
    hashed.update(policy.encode())
    return hashed.hexdigest()


def read_policy(data: bytes, source: str) -> PolicyFile:
    """Check the bytes of a policy file. Nothing in it is executed, and no other file is read.

    Raises:
        InputError: If the file fails a check; the message names `source` and the fault.
    """
    try:
        return _read(data, source)
    except WireError as error:
        raise InputError(
            f"{source} is no ONNX file, or a damaged one ({error}): copy it again, or export the policy again"
        ) from None


def _read(data: bytes, source: str) -> PolicyFile:
    model = gathered(memoryview(data))
    graphs = nested(model, 7)
    if len(graphs) != 1:
        raise InputError(f"{source} is no ONNX file, or a damaged one (it holds no graph): export the policy again")
    policy = _metadata(model, graphs[0], source)
    if 25 in model or 20 in model:
        raise _refused(source, "it defines functions or training steps of its own")
    for domain in (text_of(gathered(opset), 1) for opset in nested(model, 8)):
        _check_domain(domain, source)
    graph = gathered(graphs[0])
    if 15 in graph:
        raise _refused(source, "it holds sparse constants")
    constants: dict[str, list[int]] = {}
    for tensor in nested(graph, 5):
        _check_tensor(tensor, source, constants)
    for node in nested(graph, 1):
        _check_node(node, source, constants)
    try:
        inputs, actions, state = _layout(policy)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
        raise _altered(source, f"its description of inputs and outputs is not usable, {type(error).__name__}") from None
    size = sum(prod(s.shape) * DTYPES[s.dtype][1] for s in (*inputs, actions, *(part.input for part in state)))
    if size > LARGEST_ROW:
        raise _refused(source, f"one environment's inputs and state would take {size:,} bytes")
    described = [[*inputs, *(part.input for part in state)], [actions, *(part.output for part in state)]]
    for number, specs in zip((11, 12), described, strict=True):
        _check_signature(nested(graph, number), specs, source)
    return PolicyFile(data, policy, inputs, actions, state)


def _metadata(model: dict[int, list[Any]], graph: memoryview, source: str) -> dict[str, Any]:
    """The JSON of the metadata, after checking the format and the checksum."""
    entries: dict[str, str] = {}
    for entry in map(gathered, nested(model, 14)):
        key = text_of(entry, 1)
        if key in entries:
            raise _altered(source, f"its metadata has {key!r:.50} twice")
        entries[key] = text_of(entry, 2)
    if FORMAT_KEY not in entries:
        raise InputError(
            f"{source} is an ONNX model, but no policy of decision-rnn (its metadata has no {FORMAT_KEY}): name a file "
            "that `decision-rnn export` wrote"
        )
    if entries[FORMAT_KEY] != str(FORMAT):
        raise InputError(
            f"{source} has the format {entries[FORMAT_KEY]!r:.20}, of which this version knows {FORMAT}: use the "
            "version of decision-rnn that wrote it, or export the policy again"
        )
    text = entries.get(POLICY_KEY, "")
    if digest(graph, text) != entries.get(DIGEST_KEY):
        raise _altered(source, "its contents do not give the checksum that it names")
    try:
        policy = json.loads(text)
    except (ValueError, RecursionError):
        policy = None
    if not isinstance(policy, dict):
        raise _altered(source, "its description is no JSON object")
    return policy


def _layout(policy: dict[str, Any]) -> tuple[tuple[TensorSpec, ...], TensorSpec, tuple[StateSpec, ...]]:
    """Inputs, actions and state according to the description; raises various errors if it is malformed."""

    def spec(entry: dict[str, Any], name: str) -> TensorSpec:
        shape, dtype = tuple(entry["shape"]), str(entry["dtype"])
        if dtype not in DTYPES or not all(type(size) is int and 0 <= size < 1 << 31 for size in shape):
            raise ValueError(dtype)
        if prod(shape) > LARGEST_ROW or len(shape) > 8:
            raise OverflowError(prod(shape))
        return TensorSpec(str(entry[name]), dtype, shape)

    def initial(entry: dict[str, Any]) -> np.ndarray:
        value, shape = np.asarray(entry["initial"], np.float64), tuple(entry["shape"])
        if value.shape not in ((), shape):
            raise ValueError(value.shape)
        return np.broadcast_to(value.astype(entry["dtype"]), shape)

    inputs = tuple(spec(entry, "name") for entry in policy["inputs"])
    first = inputs[0].shape
    expected = [("obs", "float32", first), ("reward", "float32", ()), ("reset", "bool", ())]
    expected.append(("target_return", "float32", ()))
    if [(one.name, one.dtype, one.shape) for one in inputs] != expected or len(first) != 1:
        raise ValueError("inputs")
    actions = spec(policy["actions"], "name")
    if actions.name != "actions" or actions.dtype != "float32" or len(actions.shape) != 1:
        raise ValueError("actions")
    state = tuple(StateSpec(spec(e, "input"), spec(e, "output"), initial(e)) for e in policy["state"])
    float(policy["target_return"]["default"])
    return inputs, actions, state


def _check_signature(values: Sequence[memoryview], specs: Sequence[TensorSpec], source: str) -> None:
    """Check the graph's inputs or outputs against the description: names, dtypes, shapes and a dynamic batch size."""
    if len(values) != len(specs):
        raise _altered(source, f"its graph has {len(values)} inputs or outputs where {len(specs)} are described")
    for value, spec in zip(values, specs, strict=True):
        info = gathered(value)
        kind = nested(info, 2)
        tensor = nested(gathered(kind[-1]), 1) if kind else []
        parts = gathered(tensor[-1]) if tensor else {}
        shape = nested(parts, 2)
        dims = [gathered(dim) for dim in nested(gathered(shape[-1]), 1)] if shape else []
        sizes = tuple(number_of(dim, 1, -1) for dim in dims)
        found = text_of(info, 1), number_of(parts, 1), sizes
        if found != (spec.name, DTYPES[spec.dtype][0], (-1, *spec.shape)):
            raise _altered(source, f"the graph's {found[0]!r:.50} is not the {spec.name!r:.50} that is described")


def _check_node(node: memoryview, source: str, constants: dict[str, list[int]]) -> None:
    parts = gathered(node)
    operator, reads, writes = text_of(parts, 4), texts_of(parts, 1), texts_of(parts, 2)
    _check_domain(text_of(parts, 7), source)
    if operator in FORBIDDEN:
        raise _refused(source, f"its graph has the operator {operator}")
    for attribute in map(gathered, nested(parts, 5)):
        if any(number in attribute for number in (6, 11, 22, 23)):
            raise _refused(source, f"its operator {operator!r:.50} holds a graph or sparse constants")
        for number in (5, 10):
            for tensor in nested(attribute, number):
                _check_tensor(tensor, source, constants, writes[0] if writes else "")
    if operator in SHAPED and len(reads) > SHAPED[operator]:
        shape = constants.get(reads[SHAPED[operator]], [])
        if prod(max(abs(size), 1) for size in shape) > LARGEST_SHAPE:
            raise _refused(source, f"its operator {operator} asks for a tensor of the shape {shape!s:.80}")


def _check_tensor(tensor: memoryview, source: str, constants: dict[str, list[int]], name: str | None = None) -> None:
    """Check that a constant is contained in the file and matches its shape; add short int64 ones to `constants`."""
    parts = gathered(tensor)
    name = text_of(parts, 8) if name is None else name
    if 13 in parts or number_of(parts, 14):
        raise _refused(source, f"its constant {name!r:.50} lies in another file")
    kind, shape = number_of(parts, 2), numbers_of(parts, 1)
    if kind not in BITS or 3 in parts or any(size < 0 for size in shape):
        raise _refused(source, f"its constant {name!r:.50} is of the type {kind} and the shape {shape!s:.80}")
    raw = nested(parts, 9)
    if raw:
        held = len(raw[-1]) * 8 // BITS[kind] if len(raw) == 1 and len(raw[0]) * 8 % BITS[kind] == 0 else -1
    else:
        field, size = TYPED.get(kind, (5, 0))
        packed = all(not isinstance(value, int) for value in parts.get(field, ()))
        chunks = nested(parts, field) if packed else []
        held = sum(map(len, chunks)) // size if size and packed else len(numbers_of(parts, field))
    if held != prod(shape):
        raise _altered(
            source, f"its constant {name!r:.50} has the shape {shape!s:.80} and holds {max(held, 0)} numbers"
        )
    if kind == 7 and held <= 16:
        constants[name] = np.frombuffer(raw[0], "<i8").tolist() if raw else numbers_of(parts, 7)


def _check_domain(domain: str, source: str) -> None:
    if domain not in ("", "ai.onnx"):
        raise _refused(source, f"it uses operators of {domain!r:.50}, which are not ONNX's own")


def _altered(source: str, what: str) -> InputError:
    return InputError(f"{source} is damaged or was altered after its export ({what}): export the policy again")


def _refused(source: str, what: str) -> InputError:
    return InputError(f"{source} holds what no exported policy does ({what}): it is not run")
