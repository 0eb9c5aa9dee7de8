"""Offline reinforcement learning with a return-conditioned agent and a swappable sequence backbone.

    run = decision_rnn.train("hopper-medium", backbone="mingru")
    print(run.evaluate([3600]))

Data: `open_dataset`, `import_log`, `write_store`, `record`, `merge_datasets`, `remove_dataset`. Agents: `train`,
`evaluate`, `compare`, `load_agent`. Extensions: `register` (a backbone), `register_objective`, `register_condition`,
`register_metric`, `register_source`. Invalid input raises `InputError`, a ValueError.
"""

import ast
import importlib
from pathlib import Path
from typing import Any

__version__ = "0.3.0"

_HOMES = {
    alias.name: str(statement.module)
    for statement in ast.parse(Path(__file__).with_suffix(".pyi").read_text()).body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}
"""The module of every public name, from the imports in __init__.pyi, which type checkers read."""

__all__ = sorted(_HOMES)


def __dir__() -> list[str]:
    """All names, including public ones not imported yet, for completion in a shell or a notebook."""
    return sorted([*globals(), *__all__])


def __getattr__(name: str) -> Any:
    """Import a public name on first use: importing the package neither waits for torch nor changes the process."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from decision_rnn.machine import limit_spinning

    limit_spinning()  # before torch is loaded
    return getattr(importlib.import_module(_HOMES[name]), name)
