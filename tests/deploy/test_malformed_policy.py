"""Policies that are damaged, changed or of something else are refused by name, and no other file is read."""

import hashlib
from collections.abc import Callable
from pathlib import Path

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


def with_file_for_a_weight(model: onnx.ModelProto) -> bytes:
    tensor = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    return signed(model)


def with_file_in_longer_bytes(model: onnx.ModelProto) -> bytes:
    """A further constant of the graph, with tag and length of its key written in more bytes than necessary."""

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2]) + bytes([len(content)]) + content

    entry = b"\x8a\x80\x00\x88\x80\x00location" + field(2, b"weights.bin")
    tensor = TensorProto(name="there", data_type=TensorProto.FLOAT, dims=[256]).SerializeToString()
    graph = field(5, tensor + field(13, entry) + b"\x70\x01")  # data_location: EXTERNAL
    return field(7, graph) + signed(model)


@pytest.mark.parametrize("case", ["absent", "cut", "changed", "another version"])
def test_malformed_policy_is_refused_by_name(
    case: str, policy_path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, path, data = onnx.load(policy_path), tmp_path / "policy.onnx", policy_path.read_bytes()
    content = {
        "cut": data[:-1000],
        "changed": data.replace(model.graph.initializer[0].raw_data[:8], bytes(8)),
        "another version": signed(onnx.load(policy_path), **{FORMAT_KEY: "2"}),
    }
    if case in content:
        path.write_bytes(content[case])
    with pytest.raises(InputError, match=str(path)):
        Policy.load(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("make", [with_file_for_a_weight, with_file_in_longer_bytes])
def test_policy_that_refers_to_another_file_is_not_loaded(
    make: Callable[[onnx.ModelProto], bytes], policy_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime 1.22 reads all of these, 1.32 those in the working folder."""
    monkeypatch.setattr(runtime.onnxruntime, "InferenceSession", lambda *_, **__: 1 / 0)
    with pytest.raises(InputError, match="other files"):
        Policy(make(onnx.load(policy_path)))
