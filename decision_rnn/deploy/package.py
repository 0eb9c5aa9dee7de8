"""An agent as one self-contained folder, to hand on or to push to the hub.

    weights.safetensors, config.json    the agent, as a checkpoint holds it
    policy.onnx                         one step of it, for runtimes without torch
    results/*.json                      what it scored
    README.md, replay.mp4               its model card, and a film

No training state is in it, and no path of the machine that it was trained on.
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
"""Of an episode in the film."""


def package(
    run: str | Path, output: str | Path | None = None, name: str | None = None, plugins: Sequence[str] = ()
) -> tuple[Path, list[str]]:
    """Write the agent of a run, or of a checkpoint of it, into a folder of its own.

    Args:
        run: The run's folder, or that of one of its checkpoints.
        output: The folder to make, which must not be there yet; `packages/DATASET-BACKBONE-seedN` if left out.
        name: The repository on the hub that its card names, where it will lie in one.
        plugins: Modules that the agent needs.

    Returns:
        The folder, and a sentence for everything that is left out of it.

    Raises:
        InputError: If there is no such run, or the folder is there already or cannot be made.
    """
    checkpoint = find_agent(run)
    trained = load_agent(checkpoint, plugins)
    config = trained.config
    label = f"{trained.provenance.spec.name.replace('/', '-')}-{config.backbone.name}-seed{config.seed}"
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
        folder: It is there.
        trained: The agent.
        results: Of it; the card has that of the most episodes.
        name: What `find_agent` will know it by.
        on_hub: Whether that is a repository on the hub.
        shipped: Within this package, where every byte is downloaded by everybody: parameters in half precision, which
            they must fit into, and no ONNX.

    Returns:
        A sentence for everything that is left out.
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
    best = max(results, key=lambda result: (result.protocol.episodes, result.protocol.state == "carry"), default=None)
    (folder / CARD).write_text(write_card(trained, best, name, on_hub, half=shipped, **parts))
    return left_out


def _export(trained: TrainedAgent, path: Path, results: Sequence[Result]) -> str | None:
    """Write the agent's step as ONNX; why that could not be done."""
    try:
        export_onnx(trained, path, results=results)
    except InputError as error:
        return str(error)
    return None


def _film(trained: TrainedAgent, folder: Path) -> str | None:
    """Film the first episode of the evaluation; why that could not be done."""
    config = trained.config
    asked = default_return(config, trained.provenance)
    try:
        film(folder, folder / CLIP, asked, 1, config.evaluation.seed, SECONDS, config.plugins)
    except InputError as error:
        return str(error)
    return None
