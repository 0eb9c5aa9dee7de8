"""An agent as a self-contained folder, to share or to push to the hub.

    weights.safetensors, config.json    the agent, as in a checkpoint
    policy.onnx                         the exported policy, for runtimes without torch
    results/*.json                      its evaluations
    README.md, replay.mp4               its model card and a video
    browser/                            the page of `play --browser`, with `--browser`

It contains no training state and no paths of the machine that trained the agent.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import yaml

from decision_rnn.backbones import count_parameters
from decision_rnn.deploy.browser.page import Subject, write_page
from decision_rnn.deploy.hub import CARD, CLIP, ONNX, find_agent
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.evaluation.results import Result, results_of, write_result
from decision_rnn.evaluation.targets import default_return
from decision_rnn.evaluation.video import film
from decision_rnn.training.checkpoint import TrainedAgent, load_agent, write_agent
from decision_rnn.training.run_files import run_of
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import new_directory
from decision_rnn.utils.machine import describe_versions
from decision_rnn.utils.messages import typed
from decision_rnn.utils.parsing import AUTO, format_target

BROWSER = "browser"
SECONDS = 10.0
"""Length of the video."""


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
        output: The folder to create; `packages/DATASET-BACKBONE-seedN` if left out.
        name: The repository on the hub, `org/name`, that the model card names.
        plugins: Modules that the agent needs.
        browser: Whether to add a page on which the agent plays in a browser.

    Returns:
        The folder, and a sentence about each part that is left out.

    Raises:
        InputError: If there is no such run, or the folder exists or cannot be created.
    """
    checkpoint = find_agent(run)
    trained = load_agent(checkpoint, plugins)
    label = f"{trained.provenance.name.replace('/', '-')}-{trained.config.backbone.name}-seed{trained.config.seed}"
    folder = Path("packages") / label if output is None else Path(output)
    if folder.exists():
        raise InputError(f"{folder} exists. Remove it, or choose another --output")
    run_folder = run_of(checkpoint)
    results = [] if run_folder is None else results_of(run_folder, trained)
    with new_directory(folder) as new:
        missing = write_package(new, trained, results, name or folder.name, on_hub=name is not None, browser=browser)
    return folder, missing


def write_package(
    folder: Path,
    trained: TrainedAgent,
    results: Sequence[Result],
    name: str,
    on_hub: bool = False,
    shipped: bool = False,
    browser: bool = False,
) -> list[str]:
    """Write an agent's files into an empty folder.

    Args:
        folder: An existing, empty folder.
        trained: The agent.
        results: Its evaluations; the card shows the one with the most episodes.
        name: The name by which `find_agent` finds it.
        on_hub: Whether the name is that of a repository on the hub.
        shipped: Whether it ships with this package: without ONNX, parameters in half precision.
        browser: Whether to add a page on which the agent plays in a browser.

    Returns:
        A sentence about each part that is left out.
    """
    config = replace(trained.config, path=None)
    trained = replace(trained, config=config)
    write_agent(folder, trained, half=shipped)
    for result in results:
        write_result(folder, replace(result, config=replace(result.config, path=None)))
    target, seed = default_return(config, trained.provenance), config.evaluation.seed
    writers: dict[str, Callable[[Path], object]] = {
        ONNX: lambda path: export_onnx(trained, path, results=results),
        CLIP: lambda path: film(trained, path, target, 1, seed, SECONDS),
        BROWSER: lambda path: write_page(path, [Subject(name, trained, folder)]),
    }
    if shipped:
        del writers[ONNX]
    if not browser:
        del writers[BROWSER]
    missing = [] if results else ["scores are left out: evaluate the run first"]
    for file, write in writers.items():
        try:
            write(folder / file)
        except InputError as error:
            missing.append(f"{file} is left out: {error}")
    most_episodes = max(results, key=lambda result: result.protocol.episodes, default=None)
    (folder / CARD).write_text(write_card(folder, trained, most_episodes, name, on_hub))
    return missing


def write_card(folder: Path, trained: TrainedAgent, result: Result | None, name: str, on_hub: bool) -> str:
    """Render the model card.

    Args:
        folder: The folder with the agent's other files; the card describes those that exist.
        trained: The agent.
        result: Its evaluation; None if it has not been evaluated.
        name: The name by which `find_agent` finds it.
        on_hub: Whether the name is that of a repository on the hub.
    """
    loader = jinja2.PackageLoader("decision_rnn.deploy")
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters["target"] = format_target
    target = default_return(trained.config, trained.provenance)
    title = f"{trained.config.backbone.name} on {trained.provenance.name}"
    return environment.get_template("card.md").render(
        front_matter=yaml.safe_dump(_front_matter(trained, result, title), sort_keys=False),
        title=title,
        name=name,
        typed=typed,
        on_hub=on_hub,
        files={file for file in (ONNX, CLIP, BROWSER) if (folder / file).exists()},
        trained=trained,
        config=trained.config,
        provenance=trained.provenance,
        result=result,
        target=None if target is None else '"auto"' if target == AUTO else f"{target:g}",
        parameters=count_parameters(trained.agent),
        versions=describe_versions(result.versions) if result else "",
    )


def _front_matter(trained: TrainedAgent, result: Result | None, title: str) -> dict[str, Any]:
    """The metadata that the hub reads; `model-index` holds scores as `mean +/- sd` over episodes."""
    environment_id = trained.provenance.environment_id
    tags = ["reinforcement-learning", "offline-reinforcement-learning", trained.config.backbone.name]
    matter: dict[str, Any] = {
        "library_name": "decision_rnn",
        "pipeline_tag": "reinforcement-learning",
        "tags": [environment_id, *tags] if environment_id else tags,
    }
    if result is not None:
        rows = []
        for target in result.targets:
            arguments: dict[str, Any] = {"trained_on": trained.provenance.name}
            if target.target_return is not None:
                arguments["target_return"] = format_target(target.target_return)
            values = {
                "mean_reward": f"{target.return_mean:.2f} +/- {target.return_sd:.2f}",
                "normalized_score": f"{target.score_mean:.2f} +/- {target.score_sd:.2f}",
            }
            metrics = [{"type": kind, "name": kind, "value": value} for kind, value in values.items()]
            rows.append(
                {
                    "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
                    "dataset": {"type": environment_id, "name": environment_id, "args": arguments},
                    "metrics": metrics,
                }
            )
        matter["model-index"] = [{"name": title, "results": rows}]
    return matter
