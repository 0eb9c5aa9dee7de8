"""Malformed policies: each is refused in one line that names the file, and no other file is read."""

import copy
import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from decision_rnn.deploy import Policy, runtime
from decision_rnn.deploy.runtime import DIGEST_KEY, DIGEST_SIZE, FORMAT_KEY, POLICY_KEY
from decision_rnn.utils.errors import InputError

Change = Callable[[onnx.ModelProto], object]


def signed(model: onnx.ModelProto, **changes: str | None) -> bytes:
    """The model with a valid checksum, as an attacker would write it; None removes a key."""
    entries = {entry.key: entry.value for entry in model.metadata_props}
    digest = entries.pop(DIGEST_KEY)
    entries = {**entries, **changes, DIGEST_KEY: digest}
    helper.set_model_props(model, {key: value for key, value in entries.items() if value is not None})
    data = model.SerializeToString(deterministic=True)[:-DIGEST_SIZE]
    return data + hashlib.sha256(data).hexdigest().encode()


def graphed(change: Change) -> Callable[[onnx.ModelProto], bytes]:
    """The model after `change`, with a valid checksum."""
    return lambda model: (change(model), signed(model))[1]


def described(change: Callable[[dict[str, Any]], object]) -> Callable[[onnx.ModelProto], bytes]:
    """The model with a changed description, with a valid checksum."""

    def make(model: onnx.ModelProto) -> bytes:
        policy = json.loads(next(entry.value for entry in model.metadata_props if entry.key == POLICY_KEY))
        change(policy)
        return signed(model, **{POLICY_KEY: json.dumps(policy)})

    return make


def texted(**changes: str | None) -> Callable[[onnx.ModelProto], bytes]:
    return lambda model: signed(model, **changes)


def cut(share: float) -> Callable[[onnx.ModelProto], bytes]:
    return lambda model: (data := model.SerializeToString())[: int(share * len(data))]


def retyped(group: str, number: int) -> Change:
    def change(model: onnx.ModelProto) -> None:
        tensor = getattr(model.graph, group)[number].type.tensor_type
        tensor.elem_type = TensorProto.DOUBLE if tensor.elem_type != TensorProto.DOUBLE else TensorProto.FLOAT

    return change


def renamed(group: str, number: int) -> Change:
    return lambda model: setattr(getattr(model.graph, group)[number], "name", "other")


def transpose_a_weight(model: onnx.ModelProto) -> None:
    tensor = next(t for t in model.graph.initializer if len(t.dims) == 2 and t.dims[0] != t.dims[1] and min(t.dims) > 1)
    tensor.dims.reverse()


def add_node(operator: str, read: str, **options: Any) -> Change:
    node = helper.make_node(operator, [read], ["added"], name="added", **options)
    return lambda model: model.graph.node.append(node)


CASES: dict[str, Callable[[onnx.ModelProto], bytes]] = {
    **{f"cut-{share:.3f}": cut(share) for share in (0, 0.01, 0.9, 0.999)},
    "noise": lambda _: np.random.default_rng(4).bytes(10_000),
    "no-policy": lambda model: (model.ClearField("metadata_props"), model.SerializeToString())[1],
    **{f"format-{key}": texted(**{FORMAT_KEY: key}) for key in (None, "3")},
    "checksum-missing": lambda model: (model.metadata_props.pop(), model.SerializeToString())[1],
    "weight-changed": lambda model: model.SerializeToString().replace(
        model.graph.initializer[0].raw_data[:8], bytes(8)
    ),
    **{f"description-{i}": texted(**{POLICY_KEY: text}) for i, text in enumerate(["", "[]", "{}", "[" * 100_000])},
    "target-a-word": described(lambda policy: policy["target_return"].update(default="much")),
    "initial-a-word": described(lambda policy: policy["state"][3].update(initial="x")),
    "input-retyped": graphed(retyped("input", 0)),
    "output-retyped": graphed(retyped("output", 3)),
    "input-renamed": graphed(renamed("input", 0)),
    "output-missing": graphed(lambda model: model.graph.output.pop()),
    "unknown-operator": graphed(add_node("Nope", "obs")),
    "unreadable-operator": lambda model: (  # onnxruntime would print an error whose text it cannot decode
        add_node("Nope", "obs")(model),
        model.SerializeToString().replace(b"Nope", b"N\xbepe"),
    )[1],
    "other-shapes": graphed(transpose_a_weight),
    "opset-of-the-future": graphed(lambda model: setattr(model.opset_import[0], "version", 9999)),
}


@pytest.fixture(scope="module")
def model(policy_path: Path) -> onnx.ModelProto:
    return onnx.load(policy_path)


@pytest.mark.parametrize("case", CASES)
def test_malformed_policy_is_refused_in_a_line_naming_the_file(
    case: str, model: onnx.ModelProto, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "policy.onnx"
    path.write_bytes(CASES[case](copy.deepcopy(model)))
    with pytest.raises(InputError) as refused:
        Policy.load(path)
    message = str(refused.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert len(message) < 500 + len(str(path))
    assert capfd.readouterr() == ("", "")


def in_a_weight(model: onnx.ModelProto, location: str) -> bytes:
    tensor = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return signed(model)


def in_a_node(model: onnx.ModelProto, location: str) -> bytes:
    tensor = TensorProto(name="there", data_type=TensorProto.FLOAT, dims=[256], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    model.graph.node.append(helper.make_node("Constant", [], ["there"], value=tensor))
    return signed(model)


def in_longer_bytes(model: onnx.ModelProto, location: str) -> bytes:
    """A further constant of the graph, with tag and length of its key written in more bytes than necessary."""

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2]) + bytes([len(content)]) + content

    entry = b"\x8a\x80\x00\x88\x80\x00location" + field(2, location.encode())
    tensor = TensorProto(name="there", data_type=TensorProto.FLOAT, dims=[256]).SerializeToString()
    graph = field(5, tensor + field(13, entry) + b"\x70\x01")  # data_location: EXTERNAL
    return field(7, graph) + signed(model)


@pytest.mark.parametrize("make", [in_a_weight, in_a_node, in_longer_bytes])
@pytest.mark.parametrize("location", ["weights.bin", "{}/weights.bin", "absent"])
def test_policy_that_refers_to_another_file_is_not_loaded(
    make: Callable[[onnx.ModelProto, str], bytes],
    location: str,
    model: onnx.ModelProto,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """onnxruntime 1.22 reads all of these, 1.32 those in the working folder."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "weights.bin").write_bytes(bytes(1024))
    monkeypatch.chdir(tmp_path / "there")
    monkeypatch.setattr(runtime.onnxruntime, "InferenceSession", lambda *_, **__: pytest.fail("it was loaded"))
    Path("policy.onnx").write_bytes(make(copy.deepcopy(model), location.format(tmp_path / "there")))
    with pytest.raises(InputError, match=r"policy\.onnx refers to other files"):
        Policy.load("policy.onnx")


def test_actions_of_another_size_than_declared_are_refused(
    model: onnx.ModelProto,
) -> None:
    """Otherwise onnxruntime would write beyond the array for the actions. Their size depends on the observation."""
    altered = copy.deepcopy(model)
    for node in altered.graph.node:
        node.output[:] = ["inner" if name == "actions" else name for name in node.output]
    altered.graph.initializer.append(helper.make_tensor("two", TensorProto.INT64, [2], [-1, 1]))
    altered.graph.node.extend(
        [
            helper.make_node("ReduceSum", ["obs"], ["sum"], keepdims=0),
            helper.make_node("Cast", ["sum"], ["whole"], to=TensorProto.INT64),
            helper.make_node("Mul", ["two", "whole"], ["repeats"]),
            helper.make_node("Abs", ["repeats"], ["positive"]),
            helper.make_node("Tile", ["inner", "positive"], ["actions"]),
        ]
    )
    policy = Policy(signed(altered))
    assert policy.act(np.eye(11)[0]).shape == (3,)
    with pytest.raises(InputError, match="cannot run it") as refused:
        policy.act(5 * np.eye(11)[0])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("size", [None, "folder", (1 << 30) + 1])
def test_policy_path_absent_folder_or_too_large_is_refused(
    size: int | str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "policy.onnx"
    if size == "folder":
        path.mkdir()
    elif size:
        path.touch()
        os.truncate(path, size)  # a sparse file
        monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it was read"))
    with pytest.raises(InputError, match=re.escape(str(path))):
        Policy.load(path)


def test_altered_policy_with_a_valid_checksum_acts_or_is_refused(
    model: onnx.ModelProto, capfd: pytest.CaptureFixture[str]
) -> None:
    """Changes up to three bytes of the graph, two hundred times; what loads returns actions of the declared shape."""
    generator = np.random.default_rng(2)
    data = signed(copy.deepcopy(model))
    graph = len(model.graph.SerializeToString())
    refused = acted = 0
    for _ in range(200):
        altered = bytearray(data[:-DIGEST_SIZE])
        for place in generator.integers(min(graph, 8000), size=int(generator.integers(1, 4))):
            altered[place] = int(generator.integers(256))
        digest = hashlib.sha256(altered).hexdigest().encode()
        try:
            policy = Policy(bytes(altered) + digest)
            assert policy.act(generator.normal(size=(5, policy.observation_layout.size))).shape[0] == 5
            acted += 1
        except InputError:
            refused += 1
    assert refused > 30
    assert acted > 10
    assert capfd.readouterr() == ("", "")
