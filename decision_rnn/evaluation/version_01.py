"""Conversion of result files of version 0.1 to the current schema."""

from collections.abc import Mapping
from typing import Any

from decision_rnn.config import RunConfig


def of_version_01(data: Mapping[str, Any], config: RunConfig) -> dict[str, Any]:
    """Convert the content of a version 0.1 file to the current schema. Such a file has no range of the data, and
    repeats the single result of behaviour cloning for every target return of the settings."""
    dataset, protocol = dict(data["dataset"]), dict(data["protocol"])
    targets = [{**target, "in_range": None} for target in data["targets"]]
    asked: list[float | None] = [float(target) for target in protocol["target_returns"]]
    if not config.takes_target:
        targets, asked = [{**targets[0], "target_return": None}], [None]
    return {
        **{key: value for key, value in data.items() if key != "checkpoint"},
        "dataset": {
            "comparable": "",  # missing in the first result files
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
