"""Checkpoints: what is saved, atomically, and how it comes back.

    <run>/checkpoints/<step>/weights.safetensors    the agent, normalisation statistics included
                             config.json            how it was made: enough to rebuild it and to evaluate it
                             training_state.pt      optimiser, random generators, position in the stream,
                                                   the losses that are not logged yet
    <run>/checkpoints/last -> <step>

Every folder is written under a temporary name, fsynced and renamed, so that it is whole or absent.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from decision_rnn.agent import DecisionAgent
from decision_rnn.config import RunConfig, to_dict
from decision_rnn.config_parser import from_dict
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.spec import DatasetSpec, observation_index
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.errors import InputError
from decision_rnn.files import link_atomically, new_directory, remove_directory
from decision_rnn.parsing import check_type, check_types
from decision_rnn.plugins import check_plugins, import_plugins

KEPT = 2
"""How many of the newest checkpoints stay: should the last one be damaged, the one before it serves."""

WEIGHTS, DESCRIPTION = "weights.safetensors", "config.json"
"""The files of an agent."""

INDEX = "observation_index"
"""The agent's buffer of what it sees."""
LIMIT = "return_limit"
"""Its buffer of the largest return-to-go that it sees at each timestep."""


@dataclass(frozen=True)
class Provenance:
    """What an agent was trained on: all that its evaluation needs to know of the data, which need not be at hand.

    Attributes:
        spec: The dataset's name, environment, reference scores and targets.
        fingerprint: SHA-256 over its contents.
        return_mean: Mean of its episodes' returns.
        return_sd: Their standard deviation.
        return_min: The lowest of them; None where an old checkpoint does not say.
        return_max: The highest; likewise.
        notes: What a reader of the scores has to know of the data, in sentences.
    """

    spec: DatasetSpec
    fingerprint: str
    return_mean: float
    return_sd: float
    return_min: float | None = None
    return_max: float | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: DatasetSpec, store: EpisodeStore) -> "Provenance":
        """That of an agent trained on this store of this dataset."""
        returns = store.manifest["statistics"]
        return cls(
            replace(spec, environment_id=store.environment_id),
            store.fingerprint,
            returns["return_mean"],
            returns["return_sd"],
            returns["return_min"],
            returns["return_max"],
            tuple(store.manifest["source"].get("notes", ())),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any], partial: Literal["keep", "drop"] = "keep") -> "Provenance":
        """What `dataclasses.asdict` wrote into a checkpoint.

        Args:
            data: As it was read.
            partial: What became of partial episodes. Checkpoints of version 0.1 hold the dataset's name alone: then it
                is resolved here and now.

        Raises:
            InputError: If the dataset that a checkpoint of version 0.1 needs is not here, or has other contents.
            TypeError: If it is not what was written.
            KeyError: Likewise.
        """
        if "spec" in data:
            spec = check_types(DatasetSpec(**data["spec"]))
            return check_types(cls(**{**data, "spec": spec, "notes": tuple(data["notes"])}))
        name = data["dataset"]
        try:
            dataset = open_dataset(name, partial=partial)
            spec = replace(dataset.spec, environment_id=data["environment_id"])
            if spec.contents is not None and dataset.open().fingerprint != data["fingerprint"]:
                raise InputError(f"{name} has other contents than those the agent was trained on")
        except InputError as error:
            raise InputError(
                f"{error}; the checkpoint is of version 0.1, which kept the scale of its scores with its dataset: "
                "put that dataset back to evaluate it"
            ) from None
        return check_types(cls(spec, data["fingerprint"], data["return_mean"], data["return_sd"]))

    def check_contents(self, store: EpisodeStore, subject: Path | str, remedy: str) -> None:
        """InputError if the store holds other contents than those trained on.

        Args:
            store: The dataset as it is now.
            subject: What was trained on it, for the message.
            remedy: What to do then, for the message.
        """
        if store.fingerprint != self.fingerprint:
            raise InputError(
                f"{subject} was trained on other contents of {self.spec.name} (fingerprint {self.fingerprint[:12]}, "
                f"now {store.fingerprint[:12]}): {remedy}"
            )


@dataclass(frozen=True)
class TrainedAgent:
    """The agent of a checkpoint: after `step` steps, which took `seconds` of training."""

    agent: DecisionAgent
    config: RunConfig
    provenance: Provenance
    step: int
    seconds: float


def save_checkpoint(run: Path, trained: TrainedAgent, training_state: dict[str, Any]) -> Path:
    """Write a checkpoint of that step and point `last` at it; older ones but the newest few are removed.

    Raises:
        InputError: If it cannot be written, a full disk for one; what was there before is untouched.
    """
    folder = run / "checkpoints" / str(trained.step)
    buffer = io.BytesIO()
    torch.save(training_state, buffer)
    try:
        with new_directory(folder) as new:
            write_agent(new, trained)
            (new / "training_state.pt").write_bytes(buffer.getbuffer())
        link_last(folder)
        for old in _saved(run)[:-KEPT]:
            remove_directory(old)
    except OSError as error:
        raise InputError(
            f"cannot write the checkpoint {folder}: {error.strerror}; earlier checkpoints are intact, so make room "
            "and run the same command with --resume"
        ) from None
    return folder


def write_agent(folder: Path, trained: TrainedAgent, half: bool = False) -> None:
    """Write what `load_agent` reads into a folder: weights, parameters in half precision if asked, and description."""
    description = {
        "config": to_dict(trained.config),
        "observation_dim": len(trained.agent.observation_mean),
        "action_dim": trained.agent.action_dim,
        "provenance": asdict(trained.provenance),
        "step": trained.step,
        "seconds": round(trained.seconds, 2),
    }
    # Tied weights are written under each of their names: safetensors takes no two tensors of one storage.
    state = trained.agent.state_dict()
    weights = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in state.items()}
    if half:
        parameters = trained.agent.named_parameters(remove_duplicate=False)
        weights |= {name: weights[name].half() for name, _ in parameters}
    (folder / WEIGHTS).write_bytes(safetensors.torch.save(weights))
    (folder / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n")


def link_last(folder: Path) -> None:
    """Point `last` beside a checkpoint's folder at it."""
    link_atomically(folder.parent / "last", folder.name)


def has_checkpoint(run: Path) -> bool:
    """Whether a run has come to its first checkpoint."""
    return bool(_saved(run))


def last_checkpoint(run: Path) -> Path:
    """The newest checkpoint of a run; InputError if `run` is not a run or has no checkpoint yet."""
    if not (run / "config.yaml").is_file():
        raise InputError(f"{run} is not a run folder (it has no config.yaml): name one that `decision-rnn train` made")
    saved = _saved(run)
    if not saved:
        raise InputError(f"{run} has no checkpoint yet: train it on with --resume")
    return saved[-1]


def run_of(folder: Path) -> Path | None:
    """The run whose checkpoint lies in that folder; None for an agent's folder that is in no run."""
    if folder.parent.name != "checkpoints":  # it may be written as seen from within the run
        folder = folder.absolute()
    run = folder.parent.parent
    return run if folder.parent.name == "checkpoints" and (run / "config.yaml").is_file() else None


def load_agent(folder: Path, plugins: Sequence[str] = ()) -> TrainedAgent:
    """The agent of a checkpoint folder, in evaluation mode on the CPU.

    No code that the checkpoint names is run: if its backbone, objective or environment is defined in a module outside
    the package, name that module here or import it first.

    Args:
        folder: The checkpoint's folder, such as `last_checkpoint` returns.
        plugins: Modules to import first.

    Raises:
        InputError: Naming the file that is missing, damaged or does not fit, or the module that it requires.
    """
    import_plugins(plugins)
    path = folder / DESCRIPTION
    try:
        description = json.loads(path.read_text())
        check_plugins(description["config"].get("plugins", ()), str(path))
        config = from_dict(description["config"], str(path))
        provenance = Provenance.from_dict(description["provenance"], config.partial)
        step, seconds = check_type(description["step"], int), check_type(description["seconds"], float)
        dims = _size(description["observation_dim"]), _size(description["action_dim"])
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path, error) from None
    path = folder / WEIGHTS
    try:
        weights = _renamed(safetensors.torch.load(path.read_bytes()))
        if config.observation.mask != "none" and INDEX not in weights:  # of version 0.1
            index = observation_index(config.observation.mask, provenance.spec.environment_id)
            weights[INDEX] = torch.from_numpy(index)
        agent = DecisionAgent(
            config.agent,
            config.backbone,
            torch.zeros(dims[0]),
            torch.ones(dims[0]),
            action_dim=dims[1],
            return_scale=1.0,
            objective=config.objective,
            observation_index=weights.get(INDEX),
            return_limit=weights.get(LIMIT),
        )
        agent.load_state_dict(weights)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise _damaged(path, error) from None
    return TrainedAgent(agent.eval(), config, provenance, step, seconds)


def load_training_state(folder: Path) -> dict[str, Any]:
    """The optimiser's and the generators' state of a checkpoint folder, on the CPU; InputError if it is damaged."""
    path = folder / "training_state.pt"
    try:
        return torch.load(io.BytesIO(path.read_bytes()), map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged archive surfaces as any of half a dozen types
        raise _damaged(path, error) from None


def _size(value: Any) -> int:
    """A number of entries that was read from JSON; ValueError unless a tensor can have that many."""
    if not 0 < check_type(value, int) < 2**31:
        raise ValueError(f"{value!r:.100} is no size")
    return value


def _renamed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights by the names of today: in version 0.1 the squared error's head was the agent's own."""
    return {f"objective.{name}" if name.startswith("head.") else name: value for name, value in weights.items()}


def _damaged(path: Path, error: Exception) -> InputError:
    folder = path.parent
    run = run_of(folder)
    others = [other.name for other in _saved(run) if other != folder.absolute()] if run is not None else []
    remedy = "train the run again" if run is not None else "get the agent again from where it came"
    if others:
        remedy = f"delete {folder} to go on from step {others[-1]}"
    return InputError(f"the checkpoint file {path} is missing or damaged ({type(error).__name__}): {remedy}")


def _saved(run: Path) -> list[Path]:
    """The run's checkpoint folders, oldest first."""
    folders = (run / "checkpoints").iterdir() if (run / "checkpoints").is_dir() else ()
    return sorted((f for f in folders if f.name.isdigit()), key=lambda f: int(f.name))
