"""Malformed policies: each is refused in one line, before it reaches onnxruntime and without reading other files."""

import builtins
import contextlib
import copy
import io
import json
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from decision_rnn.deploy import Policy, runtime
from decision_rnn.deploy.policy_file import DIGEST_KEY, FORMAT_KEY, POLICY_KEY, digest, read_policy
from decision_rnn.deploy.protobuf import WireError, fields
from decision_rnn.errors import InputError

GENERATOR = np.random.default_rng(0)


def properties(model: onnx.ModelProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}


def signed(model: onnx.ModelProto, **changes: str | None) -> bytes:
    """The model as an attacker would write it, with a valid checksum; None removes a key."""
    entries: dict[str, str | None] = {**properties(model), **changes}
    text = entries.get(POLICY_KEY) or ""
    graph = model.graph.SerializeToString(deterministic=True)
    entries = {**entries, DIGEST_KEY: digest(graph, text), **{k: v for k, v in changes.items() if k == DIGEST_KEY}}
    helper.set_model_props(model, {key: value for key, value in entries.items() if value is not None})
    return model.SerializeToString(deterministic=True)


def described(change: Callable[[dict[str, Any]], object]) -> Callable[[onnx.ModelProto], bytes]:
    """The model with a changed description."""

    def make(model: onnx.ModelProto) -> bytes:
        policy = json.loads(properties(model)[POLICY_KEY])
        change(policy)
        return signed(model, **{POLICY_KEY: json.dumps(policy)})

    return make


def graphed(change: Callable[[onnx.ModelProto], object]) -> Callable[[onnx.ModelProto], bytes]:
    """The model after `change`, with a valid checksum."""

    def make(model: onnx.ModelProto) -> bytes:
        change(model)
        return signed(model)

    return make


def texted(**changes: str | None) -> Callable[[onnx.ModelProto], bytes]:
    return lambda model: signed(model, **changes)


def cut(share: float) -> Callable[[onnx.ModelProto], bytes]:
    def make(model: onnx.ModelProto) -> bytes:
        data = model.SerializeToString()
        return data[: int(share * len(data))]

    return make


def flipped(place: float, bit: int) -> Callable[[onnx.ModelProto], bytes]:
    """The model with one bit of the graph flipped."""

    def make(model: onnx.ModelProto) -> bytes:
        data, graph = bytearray(model.SerializeToString(deterministic=True)), model.graph.SerializeToString()
        start = data.find(graph[:64])
        data[start + int(place * (len(graph) - 1))] ^= 1 << bit
        return bytes(data)

    return make


def add_node(model: onnx.ModelProto, operator: str, inputs: list[str], **options: Any) -> None:
    node = helper.make_node(operator, inputs, [f"added_{len(model.graph.node)}"], **options)
    model.graph.node.append(node)


def add_shaped(operator: str, shape: list[int], place: int) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        model.graph.initializer.append(helper.make_tensor("huge", TensorProto.INT64, [len(shape)], shape))
        add_node(model, operator, [*["obs"] * place, "huge"])

    return change


def add_constant_node(model: onnx.ModelProto) -> None:
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [1 << 30, 1 << 30])
    model.graph.node.append(helper.make_node("Constant", [], ["huge"], value=shape))
    add_node(model, "ConstantOfShape", ["huge"])


def outside(number: int, location: str | None, **info: str) -> Callable[[onnx.ModelProto], None]:
    """Mark a constant as stored in another file."""

    def change(model: onnx.ModelProto) -> None:
        tensor = model.graph.initializer[number]
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {**({"location": location} if location else {}), **info}.items():
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        if location:
            tensor.ClearField("raw_data")

    return change


def outside_node(model: onnx.ModelProto) -> None:
    tensor = TensorProto(name="there", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "/etc/hostname"
    model.graph.node.append(helper.make_node("Constant", [], ["there"], value=tensor))


def reshaped(number: int, dims: list[int]) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        tensor = model.graph.initializer[number]
        del tensor.dims[:]
        tensor.dims.extend(dims)

    return change


def transpose_a_weight(model: onnx.ModelProto) -> None:
    tensor = next(t for t in model.graph.initializer if len(t.dims) == 2 and t.dims[0] != t.dims[1] and min(t.dims) > 1)
    tensor.dims.reverse()


def retyped(group: str, number: int) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        tensor = getattr(model.graph, group)[number].type.tensor_type
        tensor.elem_type = TensorProto.DOUBLE if tensor.elem_type != TensorProto.DOUBLE else TensorProto.FLOAT

    return change


def resized(group: str, number: int, place: int, size: int) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        getattr(model.graph, group)[number].type.tensor_type.shape.dim[place].dim_value = size

    return change


def holding_graph(operator: str) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        inner = helper.make_graph([], "inner", [], [])
        attributes = {"then_branch": inner, "else_branch": inner} if operator == "If" else {"body": inner}
        add_node(model, operator, ["reset"], **attributes)

    return change


def put(*keys: Any) -> Callable[[dict[str, Any]], None]:
    """put("state", 0, "shape", [3]) sets another value at that place of the description."""
    *path, last, value = keys

    def change(policy: dict[str, Any]) -> None:
        for key in path:
            policy = policy[key]
        policy[last] = value

    return change


def swap_states(model: onnx.ModelProto) -> bytes:
    return described(lambda policy: policy["state"].reverse())(model)


CASES: dict[str, Callable[[onnx.ModelProto], bytes]] = {
    **{f"cut-{share:.3f}": cut(share) for share in [*np.linspace(0, 0.999, 24).tolist(), 0.0001, 0.001]},
    **{f"bit-{i}": flipped(GENERATOR.random(), int(GENERATOR.integers(8))) for i in range(24)},
    **{f"noise-{i}": lambda _, i=i: np.random.default_rng(i).bytes(int(10 ** (i / 2))) for i in range(10)},
    "text": lambda _: b"#!/bin/sh\necho hello\n",
    "zip": lambda _: b"PK\x03\x04" + bytes(200),
    "png": lambda _: b"\x89PNG\r\n\x1a\n" + bytes(200),
    "pickle": lambda _: b"\x80\x04\x95\x20\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "zeros": lambda _: bytes(1000),
    "two-policies": lambda model: 2 * model.SerializeToString(),
    "no-policy": lambda model: (model.ClearField("metadata_props"), model.SerializeToString())[1],
    **{f"format-{number!r}": texted(**{FORMAT_KEY: number}) for number in ("0", "2", "999", "", "one", "1.0", "-1")},
    "format-missing": texted(**{FORMAT_KEY: None}),
    "checksum-missing": texted(**{DIGEST_KEY: None}),
    "checksum-other": texted(**{DIGEST_KEY: "0" * 64}),
    **{
        f"description-{i}": texted(**{POLICY_KEY: text})
        for i, text in enumerate(["", "{", "[]", "null", "3", '"x"', "{}", "[" * 100_000, '{"inputs": {}}'])
    },
    **{f"without-{key}": described(lambda p, key=key: p.pop(key)) for key in ("inputs", "actions", "state")},
    "without-target": described(lambda policy: policy.pop("target_return")),
    "target-a-word": described(put("target_return", "default", "much")),
    "state-empty": described(put("state", [])),
    "state-reversed": swap_states,
    "state-doubled": described(lambda policy: policy["state"].append(policy["state"][-1])),
    "state-none": described(put("state", 2, None)),
    **{
        f"state-{i}-{key}-{value!r:.20}": described(put("state", i, key, value))
        for i, key, value in [
            (0, "shape", [1]),
            (1, "shape", [4]),
            (3, "shape", [17]),
            (3, "shape", []),
            (3, "shape", [-16]),
            (3, "shape", [1 << 40]),
            (3, "shape", [1 << 20, 1 << 20, 1 << 20]),
            (3, "shape", [16.0]),
            (3, "shape", "16"),
            (3, "shape", [1] * 100),
            (3, "dtype", "float64"),
            (3, "dtype", "object"),
            (3, "dtype", "O"),
            (2, "dtype", "float32"),
            (3, "input", "h_in_memory_1"),
            (3, "output", "actions"),
            (3, "input", 5),
            (3, "initial", "x"),
            (3, "initial", [0.0, 1.0]),
            (3, "initial", {"a": 1}),
        ]
    },
    "inputs-swapped": described(lambda policy: policy["inputs"].reverse()),
    "observation-longer": described(put("inputs", 0, "shape", [12])),
    "observation-huge": described(put("inputs", 0, "shape", [1 << 30])),
    "actions-longer": described(put("actions", "shape", [4])),
    "actions-renamed": described(put("actions", "name", "action")),
    **{f"input-{i}-retyped": graphed(retyped("input", i)) for i in range(8)},
    **{f"output-{i}-retyped": graphed(retyped("output", i)) for i in range(4)},
    "input-batch-fixed": graphed(resized("input", 0, 0, 1)),
    "input-longer": graphed(resized("input", 0, 1, 12)),
    "output-huge": graphed(resized("output", 0, 1, 1 << 40)),
    "input-missing": graphed(lambda model: model.graph.input.pop()),
    "output-missing": graphed(lambda model: model.graph.output.pop()),
    "graph-missing": graphed(lambda model: model.ClearField("graph")),
    **{
        f"outside-{number}-{place or 'nowhere'}": graphed(outside(number, place))
        for number, place in enumerate(["weights.bin", "/etc/passwd", "../../secret", "/dev/zero", None, "https://x/y"])
    },
    "outside-with-size": graphed(outside(0, "weights.bin", offset="0", length=str(1 << 50))),
    "outside-in-a-node": graphed(outside_node),
    **{
        f"constant-{i}": graphed(reshaped(0, dims))
        for i, dims in enumerate([[1 << 40], [1 << 62, 4], [-1], [2, -8], [3], [1 << 31, 1 << 31, 1 << 31]])
    },
    "constant-of-no-type": graphed(lambda model: setattr(model.graph.initializer[0], "data_type", 77)),
    "constant-of-text": graphed(
        lambda model: model.graph.initializer.append(helper.make_tensor("t", TensorProto.STRING, [1], [b"x"]))
    ),
    "huge-fill": graphed(add_shaped("ConstantOfShape", [1 << 30, 1 << 20], 0)),
    "huge-fill-by-node": graphed(add_constant_node),
    "huge-expand": graphed(add_shaped("Expand", [1 << 20, 1 << 10, 11], 1)),
    "huge-tile": graphed(add_shaped("Tile", [1 << 30, 1], 1)),
    "custom-domain": graphed(lambda model: add_node(model, "Anything", ["obs"], domain="my.domain")),
    "microsoft-domain": graphed(lambda model: add_node(model, "FusedGemm", ["obs"], domain="com.microsoft")),
    "custom-opset": graphed(lambda model: model.opset_import.append(helper.make_opsetid("evil", 1))),
    "if": graphed(holding_graph("If")),
    "loop": graphed(holding_graph("Loop")),
    "scan": graphed(holding_graph("Scan")),
    "graph-in-another-operator": graphed(holding_graph("Relu")),
    "random": graphed(lambda model: add_node(model, "RandomNormalLike", ["obs"])),
    "function": graphed(lambda model: model.functions.add()),
    "training": graphed(lambda model: model.training_info.add()),
    "sparse": graphed(lambda model: model.graph.sparse_initializer.add()),
}
LATE: dict[str, Callable[[onnx.ModelProto], bytes]] = {
    "unknown-operator": graphed(lambda model: add_node(model, "Nope", ["obs"])),
    "unknown-value": graphed(lambda model: add_node(model, "Relu", ["nothing"])),
    "other-shapes": graphed(transpose_a_weight),
    "opset-of-the-future": graphed(lambda model: setattr(model.opset_import[0], "version", 9999)),
}
"""What only onnxruntime can tell."""


@pytest.fixture(scope="module")
def model(policy_path: Path) -> onnx.ModelProto:
    return onnx.load(policy_path)


def assert_refused(path: Path) -> None:
    with pytest.raises(InputError) as refused:
        Policy.load(path)
    message = str(refused.value)
    assert "\n" not in message
    assert len(message) < 500 + len(str(path))


@pytest.mark.parametrize("case", CASES)
def test_malformed_policy_is_refused_in_one_line_without_an_inference_session(
    case: str, model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime.onnxruntime, "InferenceSession", lambda *_, **__: pytest.fail("it was run"))
    path = tmp_path / "policy.onnx"
    path.write_bytes(CASES[case](copy.deepcopy(model)))
    assert_refused(path)


@pytest.mark.parametrize("case", LATE)
def test_policy_graph_that_onnxruntime_cannot_load_is_refused_in_one_line(
    case: str, model: onnx.ModelProto, tmp_path: Path
) -> None:
    path = tmp_path / "policy.onnx"
    path.write_bytes(LATE[case](copy.deepcopy(model)))
    assert_refused(path)


def test_policy_that_onnxruntime_cannot_load_is_refused_without_a_word(
    model: onnx.ModelProto, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """onnxruntime would print an error that it cannot decode, and load the file again with constant folding."""
    altered = copy.deepcopy(model)
    altered.graph.node.append(helper.make_node("Nope", ["obs"], ["added"], name="some name"))
    graph = altered.graph.SerializeToString(deterministic=True).replace(b"some name", b"some\xbename")
    (tmp_path / "policy.onnx").write_bytes(with_graph(altered, graph))
    assert_refused(tmp_path / "policy.onnx")
    assert capfd.readouterr() == ("", "")


def test_policy_graph_that_fails_when_it_is_run_raises_input_error_in_act(
    model: onnx.ModelProto, tmp_path: Path
) -> None:
    altered = copy.deepcopy(model)
    node = next(node for node in altered.graph.node if node.op_type == "Split")
    next(attribute for attribute in node.attribute if attribute.name == "num_outputs").i = 42
    (tmp_path / "policy.onnx").write_bytes(signed(altered))
    policy = Policy.load(tmp_path / "policy.onnx")
    for index in (None, [0]):
        with pytest.raises(InputError, match="cannot use the policy") as refused:
            policy.act(np.zeros((1, 11)), index=index)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (None, "cannot read .*: No such file or directory"),
        ("folder", "cannot read .*: Is a directory"),
        ((1 << 30) + 1, "has 1,073,741,825 bytes, more than any policy"),
        (1 << 40, "has 1,099,511,627,776 bytes, more than any policy"),
    ],
)
def test_policy_path_that_is_absent_a_folder_or_too_large_is_refused_unread(
    size: int | str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "policy.onnx"
    if size == "folder":
        path.mkdir()
    elif size:
        path.touch()
        os.truncate(path, size)  # a sparse file
        for module, name in ((io, "open"), (builtins, "open"), (os, "open"), (mmap, "mmap")):
            monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("a file was opened"))
    monkeypatch.setattr(runtime, "read_policy", lambda *_: pytest.fail("it was read"))
    with pytest.raises(InputError, match=words):
        Policy.load(path)
    assert_refused(path)


def with_graph(model: onnx.ModelProto, graph: bytes) -> bytes:
    """The model with these bytes as its graph, and a valid checksum."""
    outer = onnx.ModelProto()
    outer.CopyFrom(model)
    outer.ClearField("graph")
    checksum = digest(graph, properties(model)[POLICY_KEY])
    helper.set_model_props(outer, {**properties(model), DIGEST_KEY: checksum})
    length, varint = len(graph), bytearray()
    while length >= 0x80:
        varint.append(length & 0x7F | 0x80)
        length >>= 7
    varint.append(length)
    return outer.SerializeToString() + b"\x3a" + bytes(varint) + graph


def test_altered_policy_bytes_with_a_valid_checksum_act_or_raise_only_input_error(
    model: onnx.ModelProto, capfd: pytest.CaptureFixture[str]
) -> None:
    """Changes up to three bytes of the graph, a thousand times. Every third policy that passes the checks acts: its
    actions have the described shape and are finite and in [-1, 1], or InputError is raised."""
    generator = np.random.default_rng(2)
    graph = model.graph.SerializeToString(deterministic=True)
    small = [place for place in range(len(graph)) if place < 4000 or place > len(graph) - 4000]
    observations = generator.normal(size=(4, 5, 11))
    refused = read = acted = 0
    for _ in range(1000):
        altered = bytearray(graph)
        for place in generator.choice(small, int(generator.integers(1, 4))):
            altered[place] = int(generator.integers(256))
        try:
            file = read_policy(with_graph(model, bytes(altered)), "policy.onnx")
        except InputError:
            refused += 1
            continue
        read += 1
        if read % 3 == 0:
            with contextlib.suppress(InputError):
                policy = Policy(file)
                actions = np.array([policy.act(observation, 1.0) for observation in observations])
                assert actions.shape == (4, 5, 3)
                assert np.isfinite(actions).all()
                assert np.abs(actions).max() <= 1
                acted += 1
    assert refused > 100
    assert acted > 50
    assert capfd.readouterr() == ("", "")


def test_protobuf_fields_agree_with_the_onnx_package_and_malformed_bytes_raise(model: onnx.ModelProto) -> None:
    data = memoryview(model.SerializeToString())
    found = [value for number, value in fields(data) if number == 7]
    assert [bytes(value) for value in found] == [model.graph.SerializeToString()]
    names = [
        bytes(value).decode()
        for number, node in fields(found[0])
        if number == 1
        for inner, value in fields(node)
        if inner == 4
    ]
    assert names == [node.op_type for node in model.graph.node]
    for broken in (b"\x0a\x05abc", b"\xff" * 11, b"\x0b\x01", b"\x02\x00", b"\x09abc"):
        with pytest.raises(WireError):
            list(fields(memoryview(broken)))
