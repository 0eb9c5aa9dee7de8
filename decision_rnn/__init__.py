"""Offline reinforcement learning with a return-conditioned agent and a swappable sequence backbone.

    run = decision_rnn.train("hopper-medium", backbone="mingru")
    print(run.evaluate([3600]))

Data: `open_dataset`, `import_log`, `write_store`, `record`, `merge_datasets`, `remove_dataset`. Agents: `train`,
`evaluate`, `compare`, `load_agent`. Extensions: `register` (a backbone), `register_objective`, `register_condition`,
`register_metric`, `register_source`. Invalid input raises `InputError`, a ValueError.
"""

from typing import Any

from decision_rnn.utils.registry import public_names

__version__ = "0.3.0"

_import_name, __all__ = public_names(__name__)


def __dir__() -> list[str]:
    """All names, including public ones not imported yet, for completion in a shell or a notebook."""
    return sorted([*globals(), *__all__])


def __getattr__(name: str) -> Any:
    """Import a public name on first use: importing the package neither waits for torch nor changes the process."""
    if name in __all__:
        from decision_rnn.utils.machine import limit_spinning

        limit_spinning()  # before torch is loaded
    return _import_name(name)
