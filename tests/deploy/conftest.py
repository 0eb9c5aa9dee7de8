"""One exported policy shared by all tests, because an export takes seconds."""

from pathlib import Path

import pytest
from made_policy import made_agent

from decision_rnn.backbones import registered
from decision_rnn.deploy import browser, export_onnx
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent
from decision_rnn.utils.errors import InputError


@pytest.fixture(scope="session")
def trained() -> TrainedAgent:
    return made_agent(registered("mingru").config(width=16, layers=2))


@pytest.fixture(scope="session")
def policy_path(trained: TrainedAgent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "policy.onnx"
    export_onnx(trained, path)
    return path


@pytest.fixture(scope="module")
def shipped_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the agent that ships; skipped where its runtimes are neither in the cache nor to be fetched."""
    name, folder = "pretrained/hopper-medium", tmp_path_factory.mktemp("browser") / "page"
    try:
        browser.write_page(folder, [browser.Subject(name, load_agent(name))])
    except InputError as error:
        pytest.skip(str(error))
    return folder
