"""What can be evaluated by name: an agent, or the file of an exported policy."""

import sys
from dataclasses import fields, make_dataclass, replace
from pathlib import Path
from typing import Any

from decision_rnn.agent import ConditionConfig, ObjectiveConfig
from decision_rnn.backbones import BackboneConfig
from decision_rnn.config import CHOICES, RunConfig, flatten, from_dict
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.evaluation.actor import EvaluatedPolicy
from decision_rnn.evaluation.metrics import METRICS
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent
from decision_rnn.runs.folder import plugins_of
from decision_rnn.runs.hub import ONNX, find_agent
from decision_rnn.utils.errors import importing, reading
from decision_rnn.utils.messages import tell, typed
from decision_rnn.utils.parsing import read_record


def load_subject(name: str | Path) -> tuple[TrainedAgent | EvaluatedPolicy, Path]:
    """An agent and its folder, or an exported policy and its file; of a package whose plugins are not imported, its
    exported policy, which needs none."""
    path = Path(name) if Path(name).suffix == ".onnx" else find_agent(name)
    missing = [] if path.suffix == ".onnx" else [each for each in plugins_of(path) if each not in sys.modules]
    if missing and (path / ONNX).is_file():
        path = path / ONNX
        tell(f"{path} acts for the agent, which needs {typed('--plugins', ','.join(missing))}")
    return load_policy(path) if path.suffix == ".onnx" else load_agent(path), path


def load_policy(path: str | Path) -> EvaluatedPolicy:
    """Load an exported policy for evaluation in place of the run that it was exported from.

    The file contains what its layers compute: the plugins that define them need not be imported.

    Raises:
        InputError: If the file cannot be used, or the extra `onnx` is missing.
    """
    with importing(path, "onnx"):
        from decision_rnn.deploy.runtime import Policy
    path = Path(path)
    policy = Policy.load(path)
    with reading(path, "an exported policy", "Export it again."):
        training, conditioned = policy.metadata["training"], policy.metadata["target_return"]["conditioned"]
        config = _saved_config(training["config"], str(path), conditioned)
        provenance = read_record(training["provenance"], DatasetSpec)
        numbers = [training[key] for key in ("step", "seconds", "parameters", "backbone_parameters")]
    # A policy can only carry its state and act greedily, however its agent was evaluated; known metrics measure it.
    metrics = tuple(name for name in config.evaluation.metrics if name in METRICS)
    settings = replace(config.evaluation, inference="recurrent", actions="greedy", metrics=metrics)
    return EvaluatedPolicy(policy, replace(config, evaluation=settings), provenance, *numbers)


def _saved_config(saved: dict[str, Any], source: str, conditioned: bool) -> RunConfig:
    """The configuration of the run that a policy was exported from, and which takes target returns if `conditioned`; a
    section that a plugin defines which is not imported holds the values of the file, unchecked."""
    unknown: dict[str, Any] = {}
    known = {key: value for key, value in flatten(saved).items() if key != "plugins"}
    bases = {"backbone": BackboneConfig, "condition": ConditionConfig, "objective": ObjectiveConfig}
    for section, base in bases.items():
        if known.get(f"{section}.name") not in (None, *CHOICES[section]):
            values = {key.partition(".")[2]: known.pop(key) for key in list(known) if key.startswith(f"{section}.")}
            own = [(key, Any) for key in values.keys() - {field.name for field in fields(base)}]
            kind: Any = make_dataclass(base.__name__, sorted(own), bases=(base,), frozen=True, kw_only=True)
            if section == "condition":
                kind.takes_target = conditioned
            unknown[section] = kind(**values)
    return replace(from_dict(known | unknown, source), plugins=tuple(saved.get("plugins", ())))
