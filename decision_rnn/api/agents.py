"""An agent under any name that a person may have for it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decision_rnn import checkpoint
from decision_rnn.checkpoint import TrainedAgent
from decision_rnn.deploy.hub import find_agent


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
    return checkpoint.load_agent(find_agent(name), plugins)


def run_folder(name: Any) -> Path | None:
    """The folder of the run that a name means; None where it means no run's folder here."""
    is_run = isinstance(name, str | Path) and (Path(name) / "config.yaml").is_file()
    return Path(name) if is_run else None
