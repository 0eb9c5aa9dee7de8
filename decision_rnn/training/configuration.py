"""Converts the arguments of a Python call to the configuration of a run, with the same keys as its YAML file."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

from decision_rnn.config import EvaluationConfig, RunConfig, flatten, from_dict, overlay, to_dict, validated
from decision_rnn.training.agents import with_architecture
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.plugins import import_plugins


def configuration(
    data: Any,
    backbone: Any,
    steps: int | None,
    seed: int | None,
    environment_id: str | None,
    plugins: Sequence[str],
    config: Mapping[str, Any],
    resumed: Path | None = None,
) -> RunConfig:
    """The configuration described by the arguments of `train`, with the keys of the run in the folder `resumed` where
    they are left out; raises InputError naming an invalid one."""
    from decision_rnn.data.dataset import as_dataset  # here: slow, and not needed for the keys alone
    from decision_rnn.training.run_folder import read_config

    import_plugins(plugins)
    arguments = {"backbone": backbone, "seed": seed, "plugins": list(plugins) or None}
    given = {name: plain(value) for name, value in arguments.items() if value is not None}
    keys = flatten({**run_keys(config, steps, "train()"), **given})
    if resumed is not None:
        keys = overlay(flatten(to_dict(read_config(resumed))), keys)
    elif data is None:
        raise InputError("train(): no data were named: give a dataset, or resume=True with the output of a run")
    else:
        keys = with_architecture({**keys, "dataset": ""})
    # The dataset follows: episodes in memory are stored only once all keys have been checked.
    described = from_dict(keys, "train()")
    data = described.dataset if data is None else data
    dataset = as_dataset(data, environment_id, described.path, described.partial)
    return replace(described, dataset=dataset.name, path=plain(dataset.path), partial=dataset.partial)


def run_keys(config: Mapping[str, Any], steps: int | None, source: str) -> dict[str, Any]:
    """The keyword arguments of a run as plain values, with `steps` in the training section; raises InputError, naming
    `source`, if one is given twice."""
    keys: dict[str, Any] = plain(config)
    if "dataset" in keys:
        raise InputError(f"{source}: dataset is {keys['dataset']!r:.100} beside the data given first: leave it out")
    if steps is not None:
        training = keys.setdefault("training", {})
        if not isinstance(training, dict) or "steps" in training:
            raise InputError(f"{source}: steps and training={training!r:.100} are both given: leave one of the two out")
        training["steps"] = plain(steps)
    return keys


def evaluation_settings(configured: EvaluationConfig, **given: Any) -> EvaluationConfig:
    """The configured settings, overridden by those that are not None; raises InputError for an invalid one."""
    values = {name: plain(value) for name, value in given.items() if value is not None}
    settings: EvaluationConfig = validated(EvaluationConfig, {**asdict(configured), **values})
    if "window" in values and settings.inference != "window":
        raise InputError(f"window is {settings.window} but the state is carried: also pass inference='window'")
    return settings


def output_folder(output: Any) -> Path | None:
    """The folder given by `output`, or None; raises InputError if it is not a path."""
    if output is not None and (not isinstance(output, str | Path) or output == ""):
        raise InputError(f"output is {output!r:.100}: it must be the path of a folder")
    return None if output is None else Path(output)


def plain(value: Any) -> Any:
    """A value as in a YAML file: dictionaries for configurations, numbers for numpy values, text for paths."""
    import numpy as np  # here: slow, and not needed for the options

    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    return str(value) if isinstance(value, Path) else value
