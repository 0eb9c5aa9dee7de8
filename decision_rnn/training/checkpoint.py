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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import safetensors.torch
import torch
from pydantic import Field
from safetensors import SafetensorError
from torch import Tensor

from decision_rnn.agent import DecisionAgent, agent_spec
from decision_rnn.config import RunConfig, from_dict, to_dict
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.training.run_files import DESCRIPTION, WEIGHTS, checkpoints_of
from decision_rnn.training.run_files import last_checkpoint as last_checkpoint
from decision_rnn.utils.errors import EnvironmentFailure, InputError
from decision_rnn.utils.files import new_directory, remove_directory
from decision_rnn.utils.messages import warn
from decision_rnn.utils.plugins import import_plugins, plugin_hashes
from decision_rnn.utils.records import read_record

KEPT = 2
"""Number of newest checkpoints to keep: if the last one is damaged, training can resume from the one before."""

RENAMED_WEIGHTS = {
    "observation_index": "encoder.index",
    "observation_mean": "encoder.mean",
    "observation_std": "encoder.std",
    "return_scale": "condition.scale",
    "return_limit": "condition.cap",
    "embed_return.weight": "embed_condition.weight",
    "embed_return.bias": "embed_condition.bias",
}
"""Names of an agent's weights and buffers in version 0.2, and their present ones."""


@dataclass(frozen=True)
class TrainedAgent:
    """The agent of a checkpoint, after `step` steps that took `seconds` of training on the data of `provenance`."""

    agent: DecisionAgent
    config: RunConfig
    provenance: DatasetSpec
    step: int
    seconds: float


Size = Annotated[int, Field(ge=1, lt=2**31)]


@dataclass(frozen=True)
class _Description:
    """The content of config.json."""

    config: dict[str, Any]
    observation_dim: Size
    action_dim: Size
    provenance: dict[str, Any]
    step: int
    seconds: float
    weights_sha256: str | None = None  # version 0.2 did not write it
    plugins_sha256: dict[str, str] = field(default_factory=dict)


def save_checkpoint(run: Path, trained: TrainedAgent, training_state: dict[str, Any]) -> Path:
    """Write a checkpoint of that step; all but the newest `KEPT` are removed.

    Raises:
        EnvironmentFailure: If it cannot be written, for example on a full disk; earlier checkpoints stay intact.
    """
    folder = run / "checkpoints" / str(trained.step)
    buffer = io.BytesIO()
    torch.save(training_state, buffer)
    try:
        with new_directory(folder) as new:
            write_agent(new, trained)
            (new / "training_state.pt").write_bytes(buffer.getbuffer())
        with contextlib.suppress(OSError):
            (folder.parent / "last").unlink()  # version 0.2 linked the newest checkpoint
        for old in checkpoints_of(run)[:-KEPT]:
            remove_directory(old)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write the checkpoint {folder}: {error.strerror}; earlier checkpoints are intact, so make room "
            "and resume the run (`train` with --resume; `compare` does so itself)"
        ) from None
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
        observation_dim=trained.agent.encoder.features,
        action_dim=trained.agent.action_dim,
        provenance=asdict(trained.provenance),
        step=trained.step,
        seconds=round(trained.seconds, 2),
        weights_sha256=hashlib.sha256(data).hexdigest(),
        plugins_sha256=plugin_hashes(trained.config.plugins),
    )
    (folder / WEIGHTS).write_bytes(data)
    (folder / DESCRIPTION).write_text(json.dumps(asdict(description), indent=2) + "\n")


def load_agent(folder: Path, plugins: Sequence[str] = ()) -> TrainedAgent:
    """The agent of a checkpoint folder, in evaluation mode on the CPU.

    No code that the checkpoint names is run: if its backbone, objective or environment is defined in a module outside
    the package, name that module here or import it first.

    Args:
        folder: The checkpoint's folder, as returned by `last_checkpoint`.
        plugins: Modules to import first.

    Raises:
        InputError: If a file is missing, damaged or does not fit, or a required module is not imported; the message
            names it.
    """
    import_plugins(plugins)
    path = folder / DESCRIPTION
    try:
        description = read_record(json.loads(path.read_text()), _Description)
        config = from_dict(description.config, str(path))
        provenance = read_provenance(description.provenance)
        observations, actions = provenance.observation_space, provenance.action_space or description.action_dim
    except InputError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged(path, error) from None
    for plugin in changed_plugins(description.plugins_sha256):
        warn(f"warning: the file of plugin {plugin} has changed since {folder} was trained. Its behaviour may differ.")
    path = folder / WEIGHTS
    try:
        data = path.read_bytes()
        if description.weights_sha256 not in (None, hashlib.sha256(data).hexdigest()):
            raise OSError("its hash differs from that in the description")
        weights = _renamed(safetensors.torch.load(data))
        spec = agent_spec(
            torch.zeros(description.observation_dim),
            torch.ones(description.observation_dim),
            actions,
            observations,
            observation_index=weights.get("encoder.index"),
            rtg_limit=weights.get("condition.acting_limit"),
        )
        agent = DecisionAgent(config.agent, config.backbone, spec, config.condition_options, config.objective_options)
        agent.load_state_dict(weights)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise _damaged(path, error) from None
    return TrainedAgent(agent.eval(), config, provenance, description.step, description.seconds)


def changes_since(run: Path, data: DatasetSpec) -> list[str]:
    """The dataset and the plugins that have changed since a run's last checkpoint; empty if it has none."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        description = read_record(json.loads((checkpoints_of(run)[-1] / DESCRIPTION).read_text()), _Description)
        other_data = description.provenance.get("fingerprint") != data.fingerprint
        return [data.name] * other_data + changed_plugins(description.plugins_sha256)
    return []


def changed_plugins(hashes: Mapping[str, str]) -> list[str]:
    """The imported plugins whose files have other hashes than these."""
    return [name for name, digest in plugin_hashes(hashes).items() if digest != hashes[name]]


def read_provenance(data: dict[str, Any]) -> DatasetSpec:
    """The data that a checkpoint or an exported policy was trained on; ValueError or TypeError if it is damaged."""
    return read_record({**data, **data.get("spec", {})}, DatasetSpec)  # version 0.2 wrote a section `spec`


def load_training_state(folder: Path) -> dict[str, Any]:
    """The training state of a checkpoint folder, on the CPU; InputError if it is missing or damaged."""
    path = folder / "training_state.pt"
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(path.read_bytes()), map_location="cpu", weights_only=True)
        return {**state, "model": _renamed(state["model"])} if "model" in state else state
    except Exception as error:  # a damaged archive raises any of half a dozen types
        raise _damaged(path, error) from None


def _renamed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights by their present names; agents of version 0.2 have a return scale also without a condition."""
    renamed = {RENAMED_WEIGHTS.get(name, name): value for name, value in weights.items()}
    if "return_scale" in weights and "embed_return.weight" not in weights:
        del renamed["condition.scale"]
    return renamed


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(
        f"the checkpoint file {path} is missing or damaged ({type(error).__name__}): get the agent again from its "
        f"source or, in a run, delete {path.parent} to go on from the checkpoint before"
    )
