"""The public names, which __init__.py imports on first use, for it and for type checkers."""

from decision_rnn.agent import AgentConfig as AgentConfig
from decision_rnn.agent import AgentSpec as AgentSpec
from decision_rnn.agent import Condition as Condition
from decision_rnn.agent import ConditionConfig as ConditionConfig
from decision_rnn.agent import DecisionAgent as DecisionAgent
from decision_rnn.agent import Objective as Objective
from decision_rnn.agent import ObjectiveConfig as ObjectiveConfig
from decision_rnn.agent import register_condition as register_condition
from decision_rnn.agent import register_objective as register_objective
from decision_rnn.backbones import Backbone as Backbone
from decision_rnn.backbones import BackboneConfig as BackboneConfig
from decision_rnn.backbones import FadingConfig as FadingConfig
from decision_rnn.backbones import SequenceMixer as SequenceMixer
from decision_rnn.backbones import register as register
from decision_rnn.backbones.ops.recurrence import linear_recurrence as linear_recurrence
from decision_rnn.backbones.resets import Resets as Resets
from decision_rnn.backbones.resets import rows_by_step as rows_by_step
from decision_rnn.backbones.resets import with_rows as with_rows
from decision_rnn.comparison.comparing import compare as compare
from decision_rnn.comparison.record import read_comparison as read_comparison
from decision_rnn.data.cache import open_or_make as open_or_make
from decision_rnn.data.catalog import Dataset as Dataset
from decision_rnn.data.catalog import open_dataset as open_dataset
from decision_rnn.data.datasets import import_log as import_log
from decision_rnn.data.datasets import merge_datasets as merge_datasets
from decision_rnn.data.episode import Episode as Episode
from decision_rnn.data.sources import Source as Source
from decision_rnn.data.sources import register_source as register_source
from decision_rnn.data.sources.local import remove_dataset as remove_dataset
from decision_rnn.data.sources.local import write_store as write_store
from decision_rnn.data.spec import DatasetSpec as DatasetSpec
from decision_rnn.data.store import EpisodeStore as EpisodeStore
from decision_rnn.data.stream import StepStream as StepStream
from decision_rnn.environments.environments import play_episodes as play_episodes
from decision_rnn.evaluation.environment_actor import EnvironmentActor as EnvironmentActor
from decision_rnn.evaluation.metrics import Metric as Metric
from decision_rnn.evaluation.metrics import register_metric as register_metric
from decision_rnn.evaluation.recording import record as record
from decision_rnn.training.agents import load_agent as load_agent
from decision_rnn.training.checkpoint import TrainedAgent as TrainedAgent
from decision_rnn.training.run import Run as Run
from decision_rnn.training.run import evaluate as evaluate
from decision_rnn.training.run import train as train
from decision_rnn.training.run_files import last_checkpoint as last_checkpoint
from decision_rnn.utils.errors import InputError as InputError

__version__: str
__all__: list[str]
