"""An agent as a self-contained folder, to share or to push to the hub.

    weights.safetensors, config.json    the agent, as in a checkpoint
    policy.onnx                         the exported policy, for runtimes without torch
    results/*.json                      its evaluations
    README.md, replay.mp4               its model card and a video
    browser/                            the page of `play --browser`, if asked for

The folder contains no training state and no paths of the machine that trained the agent.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import yaml

from decision_rnn.backbones import count_parameters
from decision_rnn.config import RunConfig
from decision_rnn.data.summary import DataSummary
from decision_rnn.deploy.browser.page import Subject, write_page
from decision_rnn.deploy.hub import CARD, CLIP, ONNX, find_agent
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.evaluation.actor import window_of
from decision_rnn.evaluation.report import describe_range
from decision_rnn.evaluation.results import Result, TargetResult, results_of, write_result
from decision_rnn.evaluation.targets import default_return
from decision_rnn.evaluation.video import film
from decision_rnn.training.checkpoint import TrainedAgent, load_agent, write_agent
from decision_rnn.training.run_files import run_of
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import check_folder, new_directory
from decision_rnn.utils.machine import describe_versions
from decision_rnn.utils.messages import typed
from decision_rnn.utils.parsing import AUTO, format_target
from decision_rnn.utils.records import spelt

BROWSER = "browser"
SECONDS = 10.0
"""The most seconds of the episode in the video."""


def package(
    run: str | Path,
    output: str | Path | None = None,
    name: str | None = None,
    plugins: Sequence[str] = (),
    browser: bool = False,
) -> tuple[Path, list[str]]:
    """Write the agent of a run or checkpoint into a folder of its own.

    Args:
        run: The folder of the run or of one of its checkpoints.
        output: The folder to create, which must not exist; `packages/DATASET-BACKBONE-seedN` if left out.
        name: The repository on the hub, `org/name`, that the model card refers to, if it will be pushed to one.
        plugins: Modules that the agent needs.
        browser: Whether to add a page on which the agent plays in a browser.

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
            called, on_hub = name or folder.name, name is not None
            left_out = write_package(new, trained, results, called, on_hub, folder, browser=browser)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror}") from None
    return folder, left_out


def write_package(
    folder: Path,
    trained: TrainedAgent,
    results: Sequence[Result],
    name: str,
    on_hub: bool,
    shown: Path,
    shipped: bool = False,
    browser: bool = False,
) -> list[str]:
    """Write an agent's files into an empty folder.

    Args:
        folder: An existing, empty folder.
        trained: The agent.
        results: Its evaluations; the card shows the one with the most episodes.
        name: The name by which `find_agent` will find it.
        on_hub: Whether the name is that of a repository on the hub.
        shown: The folder in messages, to which it will be moved.
        shipped: Whether it ships with this package; to keep the download small, it is then written without ONNX and
            with parameters in half precision, which they must fit into.
        browser: Whether to add a page on which the agent plays in a browser.

    Returns:
        A sentence about each part that is left out.
    """
    config = replace(trained.config, path=None)
    trained = replace(trained, config=config)
    write_agent(folder, trained, half=shipped)
    for result in results:
        write_result(folder, replace(result, config=replace(result.config, path=None)))
    left_out = []
    if not results and (config.evaluation.environment_id or trained.provenance.environment_id) is not None:
        left_out = ["there are no scores in it: `decision-rnn evaluate` the run and package it again"]
    target, seed = default_return(config, trained.provenance), config.evaluation.seed
    parts: dict[str, Callable[[Path], object]] = {
        ONNX: lambda path: export_onnx(trained, path, results=results, shown=shown / ONNX),
        CLIP: lambda path: film(trained, path, target, 1, seed, SECONDS),
    }
    if browser:
        parts[BROWSER] = lambda path: write_page(path, [Subject(name, trained, folder)], shown=shown / BROWSER)
    if shipped:
        del parts[ONNX]
    for file, write in parts.items():
        try:
            write(folder / file)
        except InputError as error:
            left_out.append(f"{file} is left out: {error}")
    order = sorted(results, key=lambda result: (result.protocol.episodes, result.protocol.inference == "recurrent"))
    (folder / CARD).write_text(write_card(folder, trained, order[-1] if order else None, name, on_hub, half=shipped))
    return left_out


def write_card(
    folder: Path, trained: TrainedAgent, result: Result | None, name: str, on_hub: bool, half: bool = False
) -> str:
    """Render the model card.

    Args:
        folder: The folder with the agent's other files, of which the card describes those that are there.
        trained: The agent.
        result: Its evaluation; None if it has not been evaluated.
        name: The name by which `find_agent` finds it.
        on_hub: Whether the name is that of a repository on the hub.
        half: Whether its parameters are stored in half precision.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("decision_rnn.deploy"), undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    config, provenance = trained.config, trained.provenance
    target = default_return(config, provenance)
    title = f"{config.backbone.name} on {provenance.name}"
    return environment.get_template("card.md").render(
        front_matter=yaml.safe_dump(_front_matter(provenance, result, title, config.backbone.name), sort_keys=False),
        title=title,
        name=name,
        typed=typed,
        on_hub=on_hub,
        onnx=ONNX if (folder / ONNX).exists() else None,
        clip=CLIP if (folder / CLIP).exists() else None,
        half=half,
        trained=trained,
        config=config,
        provenance=provenance,
        result=result,
        window=window_of(config.evaluation),
        browser=BROWSER if (folder / BROWSER).exists() else None,
        target='"auto"' if target == AUTO else None if target is None else f"{target:g}",
        cloning=not config.takes_target,
        reads=_reads(config),
        parameters=count_parameters(trained.agent),
        describe_target=lambda target: _describe_target(target, provenance.return_max),
        versions=describe_versions(result.versions) if result else "",
    )


def _reads(config: RunConfig) -> str:
    """What the agent's history contains, such as "returns-to-go and observations"."""
    seen = {"returns-to-go": config.takes_target, "observations": True, "actions": config.agent.previous_action}
    return " and ".join(", ".join(name for name, included in seen.items() if included).rsplit(", ", 1))


def _describe_target(target: TargetResult, return_max: float) -> str:
    if target.target_return is None:
        return "cloning"
    name = format_target(target.target_return)
    if target.target_return == AUTO:
        return name
    return f"{name} ({describe_range(target.in_range, target.target_return == return_max)})"


def _front_matter(data: DataSummary, result: Result | None, title: str, backbone: str) -> dict[str, Any]:
    """The metadata that the hub reads; without scores there is no `model-index`."""
    matter: dict[str, Any] = {
        "library_name": "decision_rnn",
        "pipeline_tag": "reinforcement-learning",
        "tags": [
            *filter(None, [data.environment_id]),
            "reinforcement-learning",
            "offline-reinforcement-learning",
            backbone,
        ],
    }
    if result is not None:
        entries = [_index_entry(data, target) for target in result.targets]
        matter["model-index"] = [{"name": title, "results": entries}]
    return matter


def _index_entry(data: DataSummary, target: TargetResult) -> dict[str, Any]:
    """The scores for one target return, written `mean +/- sd` over episodes, as is usual for agents on the hub."""
    arguments: dict[str, Any] = {"trained_on": data.name}
    if target.target_return is not None:
        arguments["target_return"] = spelt(target.target_return, target=True)
    values = {
        "mean_reward": f"{target.return_mean:.2f} +/- {target.return_sd:.2f}",
        "normalized_score": f"{target.score_mean:.2f} +/- {target.score_sd:.2f}",
    }
    return {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"type": data.environment_id, "name": data.environment_id, "args": arguments},
        "metrics": [{"type": kind, "name": kind, "value": value, "verified": False} for kind, value in values.items()],
    }
