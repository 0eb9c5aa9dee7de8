"""Policies that are damaged or of something else are refused by name."""

from pathlib import Path

import onnx
import pytest
from onnx import helper

from decision_rnn.deploy import Policy
from decision_rnn.deploy.runtime import FORMAT_KEY
from decision_rnn.utils.errors import InputError


@pytest.mark.parametrize("case", ["absent", "cut", "another version"])
def test_malformed_policy_is_refused_by_name(
    case: str, policy_path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, path, data = onnx.load(policy_path), tmp_path / "policy.onnx", policy_path.read_bytes()
    helper.set_model_props(model, {entry.key: entry.value for entry in model.metadata_props} | {FORMAT_KEY: "2"})
    content = {"cut": data[:-1000], "another version": model.SerializeToString()}
    if case in content:
        path.write_bytes(content[case])
    with pytest.raises(InputError, match=str(path)):
        Policy.load(path)
    assert capfd.readouterr() == ("", "")
