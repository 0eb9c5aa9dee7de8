"""Refuses an older Python at once. Pip before 23.3 first collects gigabytes of dependencies, or searches for some."""

import sys
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class PythonVersion(MetadataHookInterface):
    """Run before the dependencies are read."""

    def update(self, metadata: dict[str, Any]) -> None:
        if sys.version_info < (3, 11):  # noqa: UP036 - it runs before pip checks the version
            sys.exit(f"decision_rnn needs Python 3.11 or later. This is {sys.version.split()[0]}.")
