"""Deployment: export of agents to ONNX, and a runtime that needs only numpy and onnxruntime.

Importing this package imports neither; each public name is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decision_rnn.deploy.onnx import export_onnx as export_onnx
    from decision_rnn.deploy.runtime import Policy as Policy

_HOMES = {"Policy": "decision_rnn.deploy.runtime", "export_onnx": "decision_rnn.deploy.onnx"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that acting with a policy does not import torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
