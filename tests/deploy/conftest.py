"""One exported policy shared by all tests, because an export takes seconds."""

from pathlib import Path

import pytest
from made_policy import made_agent

from decision_rnn.backbones import registered
from decision_rnn.checkpoint import TrainedAgent
from decision_rnn.deploy.onnx import export_onnx


@pytest.fixture(scope="session")
def trained() -> TrainedAgent:
    return made_agent(registered("mingru").config(width=16, layers=2))


@pytest.fixture(scope="session")
def policy_path(trained: TrainedAgent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "policy.onnx"
    export_onnx(trained, path)
    return path
