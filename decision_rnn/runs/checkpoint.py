"""Checkpoints: what they contain, and how they are saved atomically and loaded.

    <run>/checkpoints/<step>/weights.safetensors    the agent, normalisation statistics included
                             config.json            how it was made: enough to rebuild and evaluate it
                             training_state.pt      optimiser, random generators, position in the stream,
                                                   losses not logged yet

Every folder is written under a temporary name, fsynced and renamed, so that it is complete or absent.
"""

import contextlib
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from decision_rnn.agent import AgentSpec, DecisionAgent
from decision_rnn.backbones import count_parameters
from decision_rnn.config import RunConfig, from_dict, to_dict
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.runs.folder import DESCRIPTION, WEIGHTS, checkpoints_of, mark_best
from decision_rnn.runs.hub import find_agent
from decision_rnn.utils.errors import InputError, reading, writing
from decision_rnn.utils.files import new_directory, remove_directory
from decision_rnn.utils.messages import warn
from decision_rnn.utils.parsing import convert, read_json, read_record
from decision_rnn.utils.plugins import import_plugins, plugin_hashes

KEPT = 2
"""Number of newest checkpoints to keep: if the last one is damaged, training can resume from the one before."""
TRAINING_STATE = "training_state.pt"
LIMIT = "condition.acting_limit"
"""The name of the limit of the return-to-go among an agent's weights."""


@dataclass(frozen=True)
class TrainedAgent:
    """The agent of a checkpoint, after `step` steps that took `seconds` of training on the data of `provenance`."""

    agent: DecisionAgent
    config: RunConfig
    provenance: DatasetSpec
    step: int
    seconds: float

    def __repr__(self) -> str:
        return f"TrainedAgent({self.config.backbone.name} on {self.config.dataset}, step {self.step})"

    @property
    def parameters(self) -> int:
        """The number of trainable parameters."""
        return count_parameters(self.agent)

    @property
    def backbone_parameters(self) -> int:
        """The number of trainable parameters of the backbone."""
        return count_parameters(self.agent.backbone)

    @property
    def observation_names(self) -> Sequence[str]:
        """The names of the entries of an observation; empty if the data have none."""
        return self.provenance.observation_names or self.agent.observation_layout.names

    def with_condition(self, options: Mapping[str, Any]) -> "TrainedAgent":
        """The agent, on the CPU, with other options of its condition, those that only change how it acts:
        `ConditionConfig.acting`; itself if there are none. InputError for others and for invalid values."""
        condition, options = self.config.condition, convert(options, dict[str, Any], "condition")
        if not options:
            return self
        if others := options.keys() - set(condition.acting):
            fault = "fixed by training" if min(others) in asdict(condition) else "unknown"
            names = ", ".join(condition.acting) or "none"
            raise InputError(f"condition.{min(others)} is {fault}; of {condition.name} can be set: {names}.")
        config = from_dict(to_dict(self.config) | {"condition": asdict(condition) | dict(options)})
        weights = {name: value.cpu() for name, value in self.agent.state_dict().items()}
        agent = _build_agent(config, self.provenance, weights)
        agent.load_state_dict(weights)
        return replace(self, agent=agent.eval(), config=config)


@dataclass(frozen=True)
class _Description:
    """The content of config.json."""

    config: dict[str, Any]
    provenance: DatasetSpec
    step: int
    seconds: float
    weights_sha256: str
    plugins_sha256: dict[str, str]


def save_checkpoint(
    run: Path, trained: TrainedAgent, training_state: dict[str, Any], best_step: int | None = None
) -> Path:
    """Write a checkpoint of that step; all but the newest `KEPT` and that of `best_step`, which a link names, are
    removed.

    Raises as `writing` does if it cannot be written, for example on a full disk; earlier checkpoints stay
    intact.
    """
    folder, buffer = run / "checkpoints" / str(trained.step), io.BytesIO()
    torch.save(training_state, buffer)  # which raises no OSError on a full disk
    with writing(folder):
        with new_directory(folder) as new:
            write_agent(new, trained)
            (new / TRAINING_STATE).write_bytes(buffer.getbuffer())
        mark_best(run, best_step)
        for old in checkpoints_of(run)[:-KEPT]:
            if old.name != str(best_step):
                remove_directory(old)
    return folder


def write_agent(folder: Path, trained: TrainedAgent, half: bool = False) -> None:
    """Write what `load_agent` reads into a folder: weights, with parameters in float16 if `half`, and description."""
    # Cloned, since safetensors rejects tensors that share storage: tied weights are written under each of their names.
    state = trained.agent.state_dict()
    weights = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in state.items()}
    if half:
        parameters = trained.agent.named_parameters(remove_duplicate=False)
        weights |= {name: weights[name].half() for name, _ in parameters}
    data = safetensors.torch.save(weights)
    description = _Description(
        config=to_dict(trained.config),
        provenance=trained.provenance,
        step=trained.step,
        seconds=round(trained.seconds, 2),
        weights_sha256=hashlib.sha256(data).hexdigest(),
        plugins_sha256=plugin_hashes(trained.config.plugins),
    )
    (folder / WEIGHTS).write_bytes(data)
    (folder / DESCRIPTION).write_text(json.dumps(asdict(description), indent=2) + "\n")


def load_agent(name: str | Path, plugins: Sequence[str] = ()) -> TrainedAgent:
    """Load an agent, in evaluation mode on the CPU.

    No code named by the agent is run: if its backbone, objective or environment is defined in a module outside the
    package, name that module in `plugins` or import it first.

    Args:
        name: A run's folder, for its last checkpoint; the folder of a checkpoint or of a packaged agent;
            `pretrained/hopper-medium`, which ships with the package; or `org/name[@revision]` on the Hugging Face Hub.
        plugins: Modules to import first.

    Returns:
        The agent (`.agent`, a `DecisionAgent`), its configuration (`.config`), its data (`.provenance`: fingerprint,
        mean and range of its returns, environment and reference scores) and the training step (`.step`).

    Raises:
        InputError: If there is no such agent, or a file or a required module is missing, damaged or does not match; the
            message names it.

    Example:
        >>> trained = decision_rnn.load_agent(run.folder)
        >>> trained.step, trained.provenance.environment_id
        (20, 'MountainCarContinuous-v0')
    """
    import_plugins(plugins)
    folder = find_agent(name)
    path = folder / DESCRIPTION
    description = read_json(path, _Description, _remedy(folder))
    config = from_dict(description.config, str(path))
    if changed := changed_plugins(description.plugins_sha256):
        warn(f"warning: plugins have changed since {folder} was trained: {', '.join(changed)}")
    path = folder / WEIGHTS
    with reading(path, "its weights", _remedy(folder)):
        data = path.read_bytes()
        weights = safetensors.torch.load(data)
        if description.weights_sha256 != hashlib.sha256(data).hexdigest():
            raise ValueError("another hash than in its description")
    agent = _build_agent(config, description.provenance, weights)
    with reading(path, "its weights", _remedy(folder)):
        agent.load_state_dict(weights)
    return TrainedAgent(agent.eval(), config, description.provenance, description.step, description.seconds)


def _build_agent(config: RunConfig, data: DatasetSpec, weights: Mapping[str, Tensor]) -> DecisionAgent:
    """An agent of which `weights` can be loaded."""
    spec = AgentSpec(
        observation_space=data.observation_space,
        action_space=data.action_space,
        observation_mean=weights["encoder.mean"],
        observation_std=weights["encoder.std"],
        observation_index=weights.get("encoder.index"),
        return_scale=float(weights.get("condition.scale", data.return_scale)),
        rtg_limit=weights.get(LIMIT),
        action_changes=weights.get("action_changes"),
        goal_changes=weights.get("condition.changes"),
    )
    return DecisionAgent(config.agent, config.backbone, spec, config.condition, config.objective)


def load_training_state(folder: Path) -> dict[str, Any]:
    """The training state of a checkpoint folder, on the CPU; InputError if it is missing or damaged."""
    path = folder / TRAINING_STATE
    with reading(path, "a training state", _remedy(folder)):
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return state


def changes_since(run: Path, data: DatasetSpec) -> list[str]:
    """The dataset and the plugins that have changed since a run's last checkpoint; empty if it has none."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        description = read_record(json.loads((checkpoints_of(run)[-1] / DESCRIPTION).read_text()), _Description)
        other_data = description.provenance.fingerprint != data.fingerprint
        return [data.name] * other_data + changed_plugins(description.plugins_sha256)
    return []


def changed_plugins(hashes: Mapping[str, str]) -> list[str]:
    """The imported plugins whose files have other hashes than these."""
    return [name for name, digest in plugin_hashes(hashes).items() if digest != hashes[name]]


def _remedy(folder: Path) -> str:
    return f"Get the agent again or, in a run, delete {folder} to go on from the checkpoint before."
