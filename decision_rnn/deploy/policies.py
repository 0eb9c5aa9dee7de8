"""What can be evaluated by name: an agent, or the file of an exported policy."""

from pathlib import Path

from decision_rnn.config import from_dict
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.evaluation.actor import ExportedPolicy
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent
from decision_rnn.utils.errors import importing, reading
from decision_rnn.utils.parsing import read_record


def load_subject(name: str | Path) -> TrainedAgent | ExportedPolicy:
    """An agent, or the exported policy of a file."""
    return load_policy(name) if Path(name).suffix == ".onnx" else load_agent(name)


def load_policy(path: str | Path) -> ExportedPolicy:
    """Load an exported policy for evaluation in place of the run that it was exported from.

    Raises:
        InputError: If the file cannot be used, the extra `onnx` is missing, or plugins of the run are not imported.
    """
    with importing(path, "onnx"):
        from decision_rnn.deploy.runtime import Policy
    policy = Policy.load(path)
    with reading(path, "an exported policy", "Export it again."):
        training = policy.metadata["training"]
        config = from_dict(training["config"], str(path))
        provenance = read_record(training["provenance"], DatasetSpec)
        numbers = [training[key] for key in ("step", "seconds", "parameters", "backbone_parameters")]
    return ExportedPolicy(policy, config, provenance, *numbers)
