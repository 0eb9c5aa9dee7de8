"""Policies that are damaged, changed or of something else are refused by name, and no other file is read."""

import copy
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from decision_rnn.deploy import Policy, runtime
from decision_rnn.deploy.runtime import DIGEST_KEY, DIGEST_SIZE, FORMAT_KEY
from decision_rnn.utils.errors import InputError


def signed(model: onnx.ModelProto, **changes: str) -> bytes:
    """The model with a valid checksum, as an attacker would write it."""
    entries = {entry.key: entry.value for entry in model.metadata_props}
    digest = entries.pop(DIGEST_KEY)
    helper.set_model_props(model, {**entries, **changes, DIGEST_KEY: digest})
    data = model.SerializeToString(deterministic=True)[:-DIGEST_SIZE]
    return data + hashlib.sha256(data).hexdigest().encode()


def with_changed_weight(model: onnx.ModelProto) -> bytes:
    return model.SerializeToString().replace(model.graph.initializer[0].raw_data[:8], bytes(8))


def without_description(model: onnx.ModelProto) -> bytes:
    model.ClearField("metadata_props")
    return model.SerializeToString()


def with_file_for_a_weight(model: onnx.ModelProto) -> bytes:
    tensor = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    return signed(model)


def with_file_for_a_constant(model: onnx.ModelProto) -> bytes:
    tensor = TensorProto(name="there", data_type=TensorProto.FLOAT, dims=[256], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    model.graph.node.append(helper.make_node("Constant", [], ["there"], value=tensor))
    return signed(model)


def with_file_in_longer_bytes(model: onnx.ModelProto) -> bytes:
    """A further constant of the graph, with tag and length of its key written in more bytes than necessary."""

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2]) + bytes([len(content)]) + content

    entry = b"\x8a\x80\x00\x88\x80\x00location" + field(2, b"weights.bin")
    tensor = TensorProto(name="there", data_type=TensorProto.FLOAT, dims=[256]).SerializeToString()
    graph = field(5, tensor + field(13, entry) + b"\x70\x01")  # data_location: EXTERNAL
    return field(7, graph) + signed(model)


CASES: dict[str, Callable[[onnx.ModelProto], bytes]] = {
    "cut": lambda model: model.SerializeToString()[:-1000],
    "noise": lambda _: np.random.default_rng(4).bytes(10_000),
    "another version": lambda model: signed(model, **{FORMAT_KEY: "3"}),
    "another model": without_description,
    "changed": with_changed_weight,
}
REFERENCES = [with_file_for_a_weight, with_file_for_a_constant, with_file_in_longer_bytes]


@pytest.fixture
def model(policy_path: Path) -> onnx.ModelProto:
    return copy.deepcopy(onnx.load(policy_path))


@pytest.mark.parametrize("case", CASES)
def test_malformed_policy_is_refused_by_name(
    case: str, model: onnx.ModelProto, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "policy.onnx"
    with pytest.raises(InputError, match=str(path)):
        Policy.load(path)
    path.write_bytes(CASES[case](model))
    with pytest.raises(InputError, match=str(path)):
        Policy.load(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("make", REFERENCES)
def test_policy_that_refers_to_another_file_is_not_loaded(
    make: Callable[[onnx.ModelProto], bytes], model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime 1.22 reads all of these, 1.32 those in the working folder."""
    monkeypatch.setattr(runtime.onnxruntime, "InferenceSession", lambda *_, **__: 1 / 0)
    with pytest.raises(InputError, match="other files"):
        Policy(make(model))
