"""What can be evaluated by name: an agent, or the file of an exported policy."""

import sys
from pathlib import Path

from decision_rnn.deploy.hub import ONNX, find_agent
from decision_rnn.evaluation.actor import EvaluatedPolicy
from decision_rnn.training.checkpoint import TrainedAgent, load_agent
from decision_rnn.training.run_folder import plugins_of, run_of
from decision_rnn.utils.errors import missing_package
from decision_rnn.utils.messages import tell, typed


def find_subject(name: str | Path) -> Path:
    """The file of an exported policy, or the folder of an agent; of a package whose plugins are not imported, its
    exported policy, which needs none."""
    if Path(name).suffix == ".onnx":
        return Path(name)
    folder = find_agent(name)
    missing = [plugin for plugin in plugins_of(folder) if plugin not in sys.modules]
    if missing and (folder / ONNX).is_file():
        tell(f"{folder / ONNX} acts for the agent, which needs {typed('--plugins', ','.join(missing))}")
        return folder / ONNX
    return folder


def load_subject(name: str | Path) -> tuple[TrainedAgent | EvaluatedPolicy, Path | None]:
    """The agent or exported policy that `find_subject` finds, and its run's folder if there is one here."""
    path = find_subject(name)
    if path.suffix != ".onnx":
        return load_agent(path), run_of(path)
    try:
        from decision_rnn.evaluation.policies import load_policy  # needs the extra `onnx`
    except ModuleNotFoundError as error:
        raise missing_package(path, error, "onnx") from None
    return load_policy(path), None
