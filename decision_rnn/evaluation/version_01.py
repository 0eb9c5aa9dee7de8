"""The result files of version 0.1, as the present form has them."""

from collections.abc import Mapping
from typing import Any

from decision_rnn.config import RunConfig


def of_version_01(data: Mapping[str, Any], config: RunConfig) -> dict[str, Any]:
    """A file of version 0.1 in the present form. It does not know the data's range, and has cloning's one result once
    for every target that was not asked for."""
    dataset, protocol = dict(data["dataset"]), dict(data["protocol"])
    targets = [{**target, "in_range": None} for target in data["targets"]]
    asked: list[float | None] = [float(target) for target in protocol["target_returns"]]
    if not config.agent.return_conditioning:
        targets, asked = [{**targets[0], "target_return": None}], [None]
    return {
        **{key: value for key, value in data.items() if key != "checkpoint"},
        "dataset": {
            "comparable": "",  # the first results do not say
            **{key: value for key, value in dataset.items() if key != "dataset"},
            "name": dataset["dataset"],
            "return_min": None,
            "return_max": None,
            "notes": (),
        },
        "protocol": {
            **protocol,
            "target_returns": asked,
            "window": protocol["window"] if protocol["state"] == "window" else None,
        },
        "targets": targets,
        "step": data["checkpoint"],
        "remarks": (),
        "backbone_parameters": data.get("backbone_parameters"),
        "commit": data.get("commit"),
    }
