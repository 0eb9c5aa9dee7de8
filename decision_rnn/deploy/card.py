"""The model card of a packaged agent: README.md in the format of the Hugging Face Hub."""

from pathlib import Path
from typing import Any

import jinja2
import yaml

from decision_rnn.backbones import count_parameters
from decision_rnn.checkpoint import TrainedAgent
from decision_rnn.config import RunConfig
from decision_rnn.data.summary import DataSummary
from decision_rnn.deploy.hub import CLIP, ONNX
from decision_rnn.evaluation.actor import window_of
from decision_rnn.evaluation.report import describe_range
from decision_rnn.evaluation.results import Result, TargetResult
from decision_rnn.evaluation.targets import default_return
from decision_rnn.machine import describe_versions


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
    title = f"{config.backbone.name} on {provenance.name}"
    return environment.get_template("card.md").render(
        front_matter=yaml.safe_dump(_front_matter(trained, result, title), sort_keys=False, allow_unicode=True),
        title=title,
        name=name,
        on_hub=on_hub,
        onnx=ONNX if (folder / ONNX).exists() else None,
        clip=CLIP if (folder / CLIP).exists() else None,
        half=half,
        trained=trained,
        config=config,
        provenance=provenance,
        result=result,
        window=window_of(config.evaluation),
        target=default_return(config, provenance),
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
    return f"{target.target_return:g} ({describe_range(target.in_range, target.target_return == return_max)})"


def _front_matter(trained: TrainedAgent, result: Result | None, title: str) -> dict[str, Any]:
    """The metadata that the hub reads; without scores there is no `model-index`."""
    spec, backbone = trained.provenance, trained.config.backbone.name
    matter: dict[str, Any] = {
        "library_name": "decision_rnn",
        "pipeline_tag": "reinforcement-learning",
        "tags": [spec.environment_id, "reinforcement-learning", "offline-reinforcement-learning", backbone],
    }
    if result is not None:
        entries = [_index_entry(spec, target) for target in result.targets]
        matter["model-index"] = [{"name": title, "results": entries}]
    return matter


def _index_entry(data: DataSummary, target: TargetResult) -> dict[str, Any]:
    """The scores for one target return, written `mean +/- sd` over episodes, as is usual for agents on the hub."""
    arguments: dict[str, Any] = {"trained_on": data.name}
    if target.target_return is not None:
        arguments["target_return"] = target.target_return
    values = {
        "mean_reward": f"{target.return_mean:.2f} +/- {target.return_sd:.2f}",
        "normalized_score": f"{target.score_mean:.2f} +/- {target.score_sd:.2f}",
    }
    return {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"type": data.environment_id, "name": data.environment_id, "args": arguments},
        "metrics": [{"type": kind, "name": kind, "value": value, "verified": False} for kind, value in values.items()],
    }
