"""The public names, which __init__.py imports on first use, for it and for type checkers."""

from .agent import AgentConfig as AgentConfig
from .agent import AgentSpec as AgentSpec
from .agent import Condition as Condition
from .agent import ConditionConfig as ConditionConfig
from .agent import DecisionAgent as DecisionAgent
from .agent import Objective as Objective
from .agent import ObjectiveConfig as ObjectiveConfig
from .agent import register_condition as register_condition
from .agent import register_objective as register_objective
from .backbones import Backbone as Backbone
from .backbones import BackboneConfig as BackboneConfig
from .backbones import FadingConfig as FadingConfig
from .backbones import SequenceMixer as SequenceMixer
from .backbones import register_backbone as register_backbone
from .backbones.ops.recurrence import linear_recurrence as linear_recurrence
from .comparison.compare import compare as compare
from .comparison.results import read_comparison as read_comparison
from .data.dataset import Dataset as Dataset
from .data.dataset import merge_datasets as merge_datasets
from .data.dataset import open_dataset as open_dataset
from .data.dataset import split_dataset as split_dataset
from .data.importing import import_log as import_log
from .data.sources import Source as Source
from .data.sources import register_source as register_source
from .data.sources.local import remove_dataset as remove_dataset
from .data.sources.local import write_store as write_store
from .data.spec import DatasetSpec as DatasetSpec
from .data.store import EpisodeStore as EpisodeStore
from .data.store import open_or_make as open_or_make
from .data.stream import StepStream as StepStream
from .environments.episode import Episode as Episode
from .environments.playing import play_episodes as play_episodes
from .environments.sensor_fault import SensorFault as SensorFault
from .evaluation.actor import EnvironmentActor as EnvironmentActor
from .evaluation.evaluate import evaluate as evaluate
from .evaluation.metrics import Metric as Metric
from .evaluation.metrics import register_metric as register_metric
from .evaluation.recording import record as record
from .runs.checkpoint import TrainedAgent as TrainedAgent
from .runs.checkpoint import load_agent as load_agent
from .runs.folder import last_checkpoint as last_checkpoint
from .training.run import Run as Run
from .training.train import train as train
from .utils.errors import InputError as InputError

__version__: str
__all__: list[str]
