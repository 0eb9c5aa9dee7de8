"""Loading an agent by any of its names."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decision_rnn.config import CHOICES, flatten, overlay, to_dict
from decision_rnn.deploy.hub import ONNX, find_agent
from decision_rnn.training.run_files import plugins_of, run_of
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import tell, typed
from decision_rnn.utils.parsing import convert

if TYPE_CHECKING:
    from decision_rnn.evaluation.evaluate import EvaluatedPolicy
    from decision_rnn.training.checkpoint import TrainedAgent

ARCHITECTURE = (*CHOICES, "observation", "agent")
"""The sections of a configuration that a run which starts from an agent's weights shares with it."""


def load_agent(name: str | Path, plugins: Sequence[str] = ()) -> "TrainedAgent":
    """Load an agent, in evaluation mode on the CPU.

    No code named by the agent is run: if its backbone, objective or environment is defined in a module outside the
    package, name that module in `plugins` or import it first.

    Args:
        name: A run's folder, for its last checkpoint; the folder of a checkpoint or of a packaged agent;
            `pretrained/hopper-medium`, which ships with the package; or the id of an agent on the Hugging Face Hub.
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
    folder = find_agent(name)
    from decision_rnn.training import checkpoint  # here: it imports torch, for which a mistyped name need not wait

    return checkpoint.load_agent(folder, plugins)


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


def load_subject(name: str | Path) -> "tuple[TrainedAgent | EvaluatedPolicy, Path | None]":
    """The agent or exported policy that `find_subject` finds, and its run's folder if there is one here."""
    name = find_subject(name)
    if name.suffix != ".onnx":
        from decision_rnn.training import checkpoint  # here too

        return checkpoint.load_agent(name), run_of(name)
    try:
        from decision_rnn.evaluation.policies import load_policy
    except ModuleNotFoundError as error:
        raise InputError(f"{name} needs {error.name}, which is missing: pip install 'decision-rnn[onnx]'") from None
    return load_policy(name), None


def with_architecture(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Flat keys of a run, completed by the architecture of the agent that their `init_from` names, if they do.

    Raises:
        InputError: If there is no such agent, or the keys choose another backbone, condition or objective.
    """
    name = convert(keys.get("init_from"), str | None, "init_from")
    if name is None:
        return dict(keys)
    config = load_agent(name).config
    config = replace(config, condition=config.condition_options, objective=config.objective_options)
    saved = flatten(to_dict(config))
    own = {key: value for key, value in saved.items() if key.partition(".")[0] in ARCHITECTURE}
    for section in CHOICES:
        asked, has = keys.get(f"{section}.name"), own[f"{section}.name"]
        if asked not in (None, has):
            raise InputError(f"{section} is {asked!r:.100}, but init_from {name} has {has}: leave {section} out")
    return overlay(own, keys)
