"""An agent under any name that a person may have for it."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decision_rnn import checkpoint
from decision_rnn.checkpoint import TrainedAgent, last_checkpoint
from decision_rnn.errors import InputError


def load_agent(name: str | Path, plugins: Sequence[str] = ()) -> TrainedAgent:
    """The agent of that name, in evaluation mode on the CPU.

    No code of the agent's choosing is run: where its backbone, objective or environment lies in a module of somebody's
    own, that module has to be named here, or to have been imported before.

    Args:
        name: A run's folder, whose last checkpoint is meant; the folder of a checkpoint or of a packaged agent;
            `pretrained/hopper-medium`, which comes with the package; or the id of an agent on the Hugging Face Hub.
        plugins: Modules to import first.

    Returns:
        The agent (`.agent`, a `DecisionAgent`), how it was made (`.config`), what is known of its data (`.provenance`:
        fingerprint, mean and range of its returns, and in `.provenance.spec` its environment and the reference scores)
        and the training step (`.step`).

    Raises:
        InputError: If there is no such agent, naming the file that is missing, damaged or does not fit, or the module
            that it needs.

    Example:
        >>> trained = decision_rnn.load_agent(run.folder)
        >>> trained.step, trained.provenance.spec.environment_id
        (20, 'MountainCarContinuous-v0')
    """
    folder = Path(name)
    if not folder.exists():
        folder = _elsewhere(str(name))
    elif not (folder / "weights.safetensors").is_file():
        folder = last_checkpoint(folder)
    return checkpoint.load_agent(folder, plugins)


def run_folder(name: Any) -> Path | None:
    """The folder of the run that a name means; None where it means no run's folder here."""
    is_run = isinstance(name, str | Path) and (Path(name) / "config.yaml").is_file()
    return Path(name) if is_run else None


def _elsewhere(name: str) -> Path:
    """The folder of an agent that comes with the package or from the hub; InputError where there is none."""
    try:
        find_agent = importlib.import_module("decision_rnn.deploy.hub").find_agent
    except ModuleNotFoundError:
        last_checkpoint(Path(name))  # which says that there is none
        raise InputError(f"there is no agent {name!r:.200}") from None
    return Path(find_agent(name))
