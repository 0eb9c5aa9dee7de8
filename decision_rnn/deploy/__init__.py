"""Deployment: export of agents to ONNX, and a runtime that needs only numpy, onnxruntime and lazy_loader
(`Policy`; `export_onnx` and `load_policy` need torch).

Importing this package imports neither torch nor onnxruntime.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
