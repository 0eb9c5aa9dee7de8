"""The sources of datasets, one per file. Importing this registers those that come with the package."""

from decision_rnn.data.sources import standin, memory, d4rl, ogbench, ocbench, minari, local  # isort: skip - in the order in which they are listed
from decision_rnn.data.sources.contract import SOURCES, Source, register_source

__all__ = ["SOURCES", "Source", "d4rl", "local", "memory", "minari", "ocbench", "ogbench", "register_source", "standin"]
