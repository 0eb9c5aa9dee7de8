"""The description of an exported policy that its file holds, except for its inputs and outputs."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from decision_rnn.backbones import count_parameters
from decision_rnn.checkpoint import TrainedAgent
from decision_rnn.config import to_dict
from decision_rnn.evaluation.results import Result
from decision_rnn.evaluation.targets import default_return
from decision_rnn.machine import versions

PACKAGES = ("decision-rnn", "torch", "numpy", "onnx", "onnxscript", "onnxruntime")


def describe(
    trained: TrainedAgent,
    spaces: dict[str, Any],
    target_return: float | None,
    results: Sequence[Result],
) -> dict[str, Any]:
    """Describe environment, target return, training, scores and versions as JSON values.

    Args:
        trained: The agent.
        spaces: The spaces of its environment, from `describe_spaces`.
        target_return: The policy's default target return; if None, the first of its evaluation.
        results: Its evaluations.
    """
    spec, config = trained.provenance, trained.config
    asked = config.takes_target
    default = default_return(config, trained.provenance) if target_return is None else target_return
    index = trained.agent.encoder.index
    return {
        "environment_id": spec.environment_id,
        **spaces,
        "observation_index": None if index is None else index.tolist(),
        "target_return": {
            "input": "target_return",
            "conditioned": asked,
            "default": float(default) if asked and default is not None else 0.0,
            "meaning": "the target return, in the environment's units, the same at every step of an episode; the "
            "graph takes the rewards from it"
            if asked
            else "of no effect: a behaviour-cloning policy takes no target",
        },
        "training": {
            "config": to_dict(config),
            "provenance": asdict(trained.provenance),
            "step": trained.step,
            "seconds": round(trained.seconds, 2),
            "parameters": count_parameters(trained.agent),
            "backbone_parameters": count_parameters(trained.agent.backbone),
        },
        "scores": [_score(result) for result in results],
        "versions": versions(PACKAGES),
    }


def _score(result: Result) -> dict[str, Any]:
    """The part of a result that is of use to users of the policy."""
    keys = ("target_return", "in_range", "return_mean", "return_sd", "score_mean", "score_sd", "length_mean")
    return {
        "protocol": asdict(result.protocol),
        "targets": [{key: getattr(target, key) for key in keys} for target in result.targets],
        "comparable": result.dataset.comparable,
    }
