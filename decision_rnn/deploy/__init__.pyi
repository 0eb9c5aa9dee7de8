"""The public names, which __init__.py imports on first use, for it and for type checkers."""

from .onnx import export_onnx as export_onnx
from .policies import load_policy as load_policy
from .runtime import Policy as Policy

__all__: list[str]
