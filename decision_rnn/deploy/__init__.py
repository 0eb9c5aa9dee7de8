"""Deployment: export of agents to ONNX, and a runtime that needs only numpy and onnxruntime.

Importing this package imports neither torch nor onnxruntime.
"""

from decision_rnn.utils.registry import public_names

__getattr__, __all__ = public_names(__name__)
