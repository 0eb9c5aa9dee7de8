"""From a trained agent to scores that can be believed: last checkpoint, every target, the data beside them."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from decision_rnn.backbones import count_parameters
from decision_rnn.checkpoint import TrainedAgent
from decision_rnn.config import EvaluationConfig, to_dict
from decision_rnn.data.environments import check_environment
from decision_rnn.data.spec import seen_numbers
from decision_rnn.errors import InputError
from decision_rnn.evaluation.rollout import Episodes, WindowActor, rollout
from decision_rnn.files import write_atomically
from decision_rnn.machine import commit, hardware, versions

PACKAGES = ("decision-rnn", "torch", "numpy", "gymnasium", "mujoco")
"""What a score depends on."""


def evaluate(trained: TrainedAgent, settings: EvaluationConfig) -> dict[str, Any]:
    """Play the episodes and gather the result: what result.json holds.

    Args:
        trained: The agent, on any device.
        settings: How many episodes, which targets, which protocol.

    Returns:
        Scores per target return, raw and normalised, with the data's mean, the run's configuration, versions,
        hardware and wall time; plain JSON values.
    """
    spec = trained.provenance.spec
    check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
    agent = trained.agent.eval()
    device = agent.return_scale.device
    actor = agent if settings.state == "carry" else WindowActor(agent, settings.window)
    targets = settings.target_returns or spec.target_returns
    begun = time.perf_counter()
    environment_id, mask = spec.environment_id, trained.config.observation.mask
    seen = seen_numbers(mask, environment_id)
    results = rollout(actor, environment_id, targets, settings.episodes, settings.seed, device, seen=seen)
    seconds = time.perf_counter() - begun

    def summary(episodes: Episodes) -> dict[str, Any]:
        scores = spec.normalised(episodes.returns)
        return {
            "target_return": episodes.target_return,
            "return_mean": float(episodes.returns.mean()),
            "return_sd": float(episodes.returns.std()),
            "score_mean": float(scores.mean()),
            "score_sd": float(scores.std()),
            "length_mean": float(episodes.lengths.mean()),
            "returns": [round(float(value), 3) for value in episodes.returns],
        }

    comparable = spec.comparable
    if mask != "none":
        comparable = f"the agent sees no {mask}: compare only with agents that see none either"
    if trained.config.partial == "drop":
        comparable += "; partial episodes were dropped"
    provenance = trained.provenance
    return {
        "dataset": {
            "dataset": spec.name,
            "fingerprint": provenance.fingerprint,
            "environment_id": environment_id,
            "return_mean": provenance.return_mean,
            "return_sd": provenance.return_sd,
            "score_mean": float(spec.normalised(provenance.return_mean)),
            "reference_min": spec.reference_min,
            "reference_max": spec.reference_max,
            "comparable": comparable,
        },
        "targets": [summary(episodes) for episodes in results],
        "protocol": {**asdict(settings), "target_returns": list(targets)},
        "checkpoint": trained.step,
        "training_seconds": round(trained.seconds, 1),
        "parameters": count_parameters(agent),
        "backbone_parameters": count_parameters(agent.backbone),
        "config": to_dict(trained.config),
        "environment_steps": int(sum(episodes.lengths.sum() for episodes in results)),
        "evaluation_seconds": round(seconds, 2),
        "commit": commit(),
        "versions": versions(PACKAGES),
        "hardware": hardware(),
    }


def write_result(run: Path, result: dict[str, Any]) -> Path:
    """Write result.json, or result-window-K.json for the window protocol, into the run's folder."""
    protocol = result["protocol"]
    name = "result.json" if protocol["state"] == "carry" else f"result-window-{protocol['window']}.json"
    try:
        write_atomically(run / name, (json.dumps(result, indent=2) + "\n").encode())
    except OSError as error:
        raise InputError(f"cannot write {run / name}: {error.strerror}") from None
    return run / name


def describe_state(protocol: dict[str, Any]) -> str:
    """How the agent remembered, from a result's `protocol`."""
    return "carried state" if protocol["state"] == "carry" else f"window of {protocol['window']}"


def format_result(result: dict[str, Any]) -> str:
    """The result as a table for a terminal."""
    data, protocol = result["dataset"], result["protocol"]
    backbone = result["config"]["backbone"]["name"]
    lines = [
        f"{backbone} on {data['dataset']}, step {result['checkpoint']}, {protocol['episodes']} episodes per target, "
        f"{describe_state(protocol)}, {data['environment_id']}",
        f"{'asked for':>12}  {'return':>17}  {'normalised score':>17}  {'length':>6}",
    ]
    for target in result["targets"]:
        lines.append(
            f"{target['target_return']:>12g}  {target['return_mean']:>8.1f} ± {target['return_sd']:>6.1f}"
            f"  {target['score_mean']:>8.1f} ± {target['score_sd']:>6.1f}  {target['length_mean']:>6.0f}"
        )
    lines.append(
        f"{'(the data)':>12}  {data['return_mean']:>8.1f} ± {data['return_sd']:>6.1f}  {data['score_mean']:>8.1f}"
    )
    lines.append("± is one standard deviation over episodes; score 0 is a random policy, 100 an expert")
    lines.append(data["comparable"])
    return "\n".join(lines)
