"""An agent as a self-contained folder, to share or to push to the hub.

    weights.safetensors, config.json    the agent, as in a checkpoint
    policy.onnx                         the exported policy, for runtimes without torch
    results/*.json                      its evaluations
    README.md, replay.mp4               its model card and a video

The folder contains no training state and no paths of the machine that trained the agent.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from decision_rnn.checkpoint import TrainedAgent, load_agent, run_of, write_agent
from decision_rnn.deploy.card import write_card
from decision_rnn.deploy.hub import CARD, CLIP, ONNX, find_agent
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.errors import InputError
from decision_rnn.evaluation.results import Result, results_of, write_result
from decision_rnn.evaluation.targets import default_return
from decision_rnn.evaluation.video import film
from decision_rnn.files import check_folder, new_directory

SECONDS = 10.0
"""The most seconds of the episode in the video."""


def package(
    run: str | Path, output: str | Path | None = None, name: str | None = None, plugins: Sequence[str] = ()
) -> tuple[Path, list[str]]:
    """Write the agent of a run or checkpoint into a folder of its own.

    Args:
        run: The folder of the run or of one of its checkpoints.
        output: The folder to create, which must not exist; `packages/DATASET-BACKBONE-seedN` if left out.
        name: The repository on the hub, `org/name`, that the model card refers to, if it will be pushed to one.
        plugins: Modules that the agent needs.

    Returns:
        The folder, and a sentence about each part that is left out of it.

    Raises:
        InputError: If there is no such run, or the folder exists or cannot be created.
    """
    checkpoint = find_agent(run)
    trained = load_agent(checkpoint, plugins)
    config = trained.config
    label = f"{trained.provenance.name.replace('/', '-')}-{config.backbone.name}-seed{config.seed}"
    folder = Path("packages") / label if output is None else Path(output)
    if folder.exists():
        raise InputError(f"{folder} is there already: remove it, or choose another --output")
    of_run = run_of(checkpoint)
    results = results_of(of_run, trained) if of_run is not None else []
    try:
        check_folder(folder)
        with new_directory(folder) as new:
            left_out = write_package(new, trained, results, name or folder.name, on_hub=name is not None)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror}") from None
    return folder, left_out


def write_package(
    folder: Path, trained: TrainedAgent, results: Sequence[Result], name: str, on_hub: bool, shipped: bool = False
) -> list[str]:
    """Write an agent's files into an empty folder.

    Args:
        folder: An existing, empty folder.
        trained: The agent.
        results: Its evaluations; the card shows the one with the most episodes.
        name: The name by which `find_agent` will find it.
        on_hub: Whether the name is that of a repository on the hub.
        shipped: Whether it ships with this package; to keep the download small, it is then written without ONNX and
            with parameters in half precision, which they must fit into.

    Returns:
        A sentence about each part that is left out.
    """
    config = replace(trained.config, path=None)
    trained = replace(trained, config=config)
    write_agent(folder, trained, half=shipped)
    for result in results:
        write_result(folder, replace(result, config=replace(result.config, path=None)))
    left_out = [] if results else ["there are no scores in it: `decision-rnn evaluate` the run and package it again"]
    parts = {"onnx": None if shipped else ONNX, "clip": CLIP}
    if not shipped and (reason := _export(trained, folder / ONNX, results)) is not None:
        parts["onnx"] = None
        left_out.append(f"{ONNX} is left out: {reason}")
    if (reason := _film(trained, folder)) is not None:
        parts["clip"] = None
        left_out.append(f"{CLIP} is left out: {reason}")
    best = max(
        results, key=lambda result: (result.protocol.episodes, result.protocol.state == "recurrent"), default=None
    )
    (folder / CARD).write_text(write_card(trained, best, name, on_hub, half=shipped, **parts))
    return left_out


def _export(trained: TrainedAgent, path: Path, results: Sequence[Result]) -> str | None:
    """Export the agent to ONNX; returns the reason if that fails."""
    try:
        export_onnx(trained, path, results=results)
    except InputError as error:
        return str(error)
    return None


def _film(trained: TrainedAgent, folder: Path) -> str | None:
    """Record a video of the first episode of the evaluation; returns the reason if that fails."""
    config = trained.config
    asked = default_return(config, trained.provenance)
    try:
        film(folder, folder / CLIP, asked, 1, config.evaluation.seed, SECONDS, config.plugins)
    except InputError as error:
        return str(error)
    return None
