"""Agents outside the lab: export to ONNX, and a runtime that needs numpy and onnxruntime alone.

Importing this package imports neither: what it offers is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decision_rnn.deploy.onnx import export_onnx as export_onnx
    from decision_rnn.deploy.runtime import Policy as Policy

_HOMES = {"Policy": "decision_rnn.deploy.runtime", "export_onnx": "decision_rnn.deploy.onnx"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: who acts with a policy must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
