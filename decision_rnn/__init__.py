"""Offline reinforcement learning with a return-conditioned agent and a swappable sequence backbone.

    run = decision_rnn.train("hopper-medium", backbone="mingru")
    print(run.evaluate([3600]))

Data: `open_dataset`, `write_store`, `record`. Agents: `train`, `evaluate`, `compare`, `load_agent`. Extensions:
`register` (a backbone), `register_objective`, `register_source`. Invalid input raises `InputError`, a ValueError.
"""

import importlib
from typing import TYPE_CHECKING, Any

from decision_rnn.machine import limit_spinning

if TYPE_CHECKING:
    from decision_rnn.agent import AgentConfig as AgentConfig
    from decision_rnn.agent import AgentSpec as AgentSpec
    from decision_rnn.agent import Condition as Condition
    from decision_rnn.agent import ConditionConfig as ConditionConfig
    from decision_rnn.agent import DecisionAgent as DecisionAgent
    from decision_rnn.agent import Objective as Objective
    from decision_rnn.agent import ObjectiveConfig as ObjectiveConfig
    from decision_rnn.agent import register_condition as register_condition
    from decision_rnn.agent import register_objective as register_objective
    from decision_rnn.api.acting import EnvironmentActor as EnvironmentActor
    from decision_rnn.api.agents import load_agent as load_agent
    from decision_rnn.api.comparing import compare as compare
    from decision_rnn.api.recording import record as record
    from decision_rnn.api.run import Run as Run
    from decision_rnn.api.run import evaluate as evaluate
    from decision_rnn.api.run import train as train
    from decision_rnn.backbones import Backbone as Backbone
    from decision_rnn.backbones import BackboneConfig as BackboneConfig
    from decision_rnn.backbones import SequenceMixer as SequenceMixer
    from decision_rnn.backbones import register as register
    from decision_rnn.checkpoint import TrainedAgent as TrainedAgent
    from decision_rnn.checkpoint import last_checkpoint as last_checkpoint
    from decision_rnn.data.catalog import open_dataset as open_dataset
    from decision_rnn.data.dataset import Dataset as Dataset
    from decision_rnn.data.environments import play_episodes as play_episodes
    from decision_rnn.data.sources import Source as Source
    from decision_rnn.data.sources import register_source as register_source
    from decision_rnn.data.sources.own import write_store as write_store
    from decision_rnn.data.spec import DatasetSpec as DatasetSpec
    from decision_rnn.data.store.cache import open_or_make as open_or_make
    from decision_rnn.data.store.episode import Episode as Episode
    from decision_rnn.data.store.episode_store import EpisodeStore as EpisodeStore
    from decision_rnn.data.stream import StepStream as StepStream
    from decision_rnn.errors import InputError as InputError

__version__ = "0.2.0"

limit_spinning()  # must run before torch is loaded, which importing the modules below does

_ROOMS = {
    "decision_rnn.api.acting": ("EnvironmentActor",),
    "decision_rnn.api.agents": ("load_agent",),
    "decision_rnn.api.comparing": ("compare",),
    "decision_rnn.api.recording": ("record",),
    "decision_rnn.api.run": ("Run", "evaluate", "train"),
    "decision_rnn.agent": (
        "AgentConfig",
        "AgentSpec",
        "Condition",
        "ConditionConfig",
        "DecisionAgent",
        "Objective",
        "ObjectiveConfig",
        "register_condition",
        "register_objective",
    ),
    "decision_rnn.backbones": ("Backbone", "BackboneConfig", "SequenceMixer", "register"),
    "decision_rnn.checkpoint": ("TrainedAgent", "last_checkpoint"),
    "decision_rnn.data.catalog": ("open_dataset",),
    "decision_rnn.data.dataset": ("Dataset",),
    "decision_rnn.data.environments": ("play_episodes",),
    "decision_rnn.data.sources": ("Source", "register_source"),
    "decision_rnn.data.store.episode": ("Episode",),
    "decision_rnn.data.store.episode_store": ("EpisodeStore",),
    "decision_rnn.data.sources.own": ("write_store",),
    "decision_rnn.data.spec": ("DatasetSpec",),
    "decision_rnn.data.store.cache": ("open_or_make",),
    "decision_rnn.data.stream": ("StepStream",),
    "decision_rnn.errors": ("InputError",),
}
_HOMES = {name: module for module, names in _ROOMS.items() for name in names}

__all__ = sorted(_HOMES)


def __dir__() -> list[str]:
    """All names, including public ones not imported yet, for completion in a shell or a notebook."""
    return sorted([*globals(), *__all__])


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that the workers that collect data do not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
