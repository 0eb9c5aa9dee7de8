"""An agent as a self-contained folder, to share or to push to the hub.

    weights.safetensors, config.json    the agent, as in a checkpoint
    policy.onnx                         the exported policy, for runtimes without torch
    results/*.json                      its evaluations
    README.md, replay.mp4               its model card and a video

It contains no training state and no paths of the machine that trained the agent.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import jinja2

from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.evaluation.results import Result, describe_acting, results_of, write_result
from decision_rnn.evaluation.targets import default_return
from decision_rnn.evaluation.video import film
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent, write_agent
from decision_rnn.runs.folder import run_of
from decision_rnn.runs.hub import CARD, CLIP, HUB_ID, ONNX, PRETRAINED, find_agent
from decision_rnn.utils.errors import one_line
from decision_rnn.utils.files import check_destination, new_directory
from decision_rnn.utils.messages import pluralize, shell_join
from decision_rnn.utils.parsing import AUTO, format_target

SECONDS = 10.0
"""Length of the video."""


def package(
    run: str | Path,
    output: str | Path | None = None,
    name: str | None = None,
) -> tuple[Path, list[str]]:
    """Write the agent of a run or checkpoint into a folder of its own.

    Args:
        run: The folder of the run or of one of its checkpoints.
        output: The folder to create; `packages/DATASET-BACKBONE-seedN` if left out.
        name: The repository on the hub, `org/name`, that the model card names.

    Returns:
        The folder, and a sentence about each part that is left out.

    Raises:
        InputError: If there is no such run, or the folder exists or cannot be created.
    """
    checkpoint = find_agent(run)
    trained = load_agent(checkpoint)
    folder = Path("packages", trained.config.run_name) if output is None else Path(output)
    check_destination(folder)
    run_folder = run_of(checkpoint)
    results = [] if run_folder is None else [*results_of(run_folder, trained.config, trained.provenance, trained.step)]
    with new_directory(folder) as new:
        missing = write_package(new, trained, results, name or folder.name)
    return folder, missing


def write_package(
    folder: Path,
    trained: TrainedAgent,
    results: Sequence[Result],
    name: str,
    shipped: bool = False,
) -> list[str]:
    """Write an agent's files into an empty folder, and return a sentence about each part that is left out.

    `name` is that by which `find_agent` finds it. If it is `shipped` with this package, ONNX is left out and parameters
    are in half precision.
    """
    trained = replace(trained, config=trained.config.portable)
    write_agent(folder, trained, half=shipped)
    results = [replace(result, config=result.config.portable) for result in results]
    for i, result in enumerate(results):
        if result.held_out is not None and Path(result.held_out.dataset).is_absolute():
            held_out = replace(result.held_out, dataset=Path(result.held_out.dataset).name)
            results[i] = replace(result, held_out=held_out)
        write_result(folder, results[i])
    target, seed = default_return(trained.config, trained.provenance), trained.config.evaluation.seed
    writers: dict[str, Callable[[Path], object]] = {}
    if not shipped:
        writers[ONNX] = lambda path: export_onnx(trained, path)
    writers[CLIP] = lambda path: film(trained, path, target, 1, seed, SECONDS)
    missing = [] if results else ["scores are left out: evaluate the run first"]
    for file, write in writers.items():
        try:
            write(folder / file)
        except Exception as error:  # such as of a broken package; the other files do not need it
            missing.append(f"{file} is left out: {one_line(error, 1000)}")
    (folder / CARD).write_text(write_card(folder, trained, results, name))
    return missing


def write_card(folder: Path, trained: TrainedAgent, results: Sequence[Result], name: str) -> str:
    """The model card of an agent, with its result of the most episodes and its last score on held-out episodes, of
    results from the newest to the oldest, and the files that are in the folder."""
    loader = jinja2.PackageLoader("decision_rnn.deploy")
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters |= {"target": format_target, "pluralize": pluralize}
    target = default_return(trained.config, trained.provenance)
    played = max(results, key=lambda result: result.protocol.episodes, default=None)
    result = played if played and played.targets else None
    return environment.get_template("card.md").render(
        name=name,
        shell_join=shell_join,
        on_hub=HUB_ID.fullmatch(name) and not name.startswith(f"{PRETRAINED}/"),
        files={file for file in (ONNX, CLIP) if (folder / file).exists()},
        trained=trained,
        result=result,
        held_out=next((each.held_out for each in results if each.held_out), None),
        acting=result and describe_acting(result.protocol, result.config.condition),
        target=None if target is None else '"auto"' if target == AUTO else f"{target:g}",
    )
