"""Rewrite rules that merge operations of an exported step: their number determines the time of an action.

Results are the same up to rounding. A rule whose `rewrite` returns None does not change the match.
"""

import itertools
from typing import Any

import numpy as np
import onnx_ir
from onnxscript.rewriter import rewrite
from onnxscript.rewriter.pattern import RewriteRuleClassBase, RewriteRuleSet

NAMES = map("constant_{}".format, itertools.count())


def simplified(model: onnx_ir.Model, reset: onnx_ir.Value, timestep: onnx_ir.Value) -> onnx_ir.Model:
    """The model with fewer operations. Episodes begin where its input `reset` is true; elsewhere its input `timestep`
    is not 0."""
    rules = [_FirstTimestep.rule(reset, timestep), _ScaledProduct.rule(), _SumOfProducts.rule(), _Residual.rule()]
    rules += [_SplitProduct.rule(count) for count in range(2, 9)]
    return rewrite(model, RewriteRuleSet(rules, commute=True))


def _product(op: Any, x: Any, weight: Any, bias: Any) -> Any:
    """weight @ x + bias, as exported from torch's linear layers."""
    return op.Gemm(x, weight, bias, alpha=1.0, beta=1.0, transA=0, transB=1)


def _arrays(*values: Any) -> list[np.ndarray]:
    """The values of constants in float64; an empty list if one is not constant."""
    constants = [value.const_value for value in values]
    return [] if None in constants else [constant.numpy().astype(np.float64) for constant in constants]


def _constant(op: Any, array: np.ndarray) -> Any:
    return op.initializer(onnx_ir.tensor(np.ascontiguousarray(array, np.float32), name=next(NAMES)))


class _FirstTimestep(RewriteRuleClassBase):
    """timestep == 0 is the reset."""

    def __init__(self, reset: onnx_ir.Value, timestep: onnx_ir.Value) -> None:
        super().__init__("first")
        self.reset, self.timestep = reset, timestep

    def pattern(self, op: Any, timestep: Any, zero: Any) -> Any:
        return op.Equal(timestep, zero)

    def rewrite(self, op: Any, timestep: Any, zero: Any) -> Any:
        where = timestep.producer()
        if where is None or where.op_type != "Where":
            return None
        condition, start, carried = where.inputs
        same = condition is self.reset and carried is self.timestep and _arrays(zero, start) == [0, 0]
        return self.reset if same else None


class _ScaledProduct(RewriteRuleClassBase):
    """W (x / s) + b = (W / s) x + b."""

    def pattern(self, op: Any, x: Any, scale: Any, weight: Any, bias: Any) -> Any:
        return _product(op, op.Div(x, scale), weight, bias)

    def rewrite(self, op: Any, x: Any, scale: Any, weight: Any, bias: Any) -> Any:
        arrays = _arrays(weight, scale)
        return _product(op, x, _constant(op, arrays[0] / arrays[1]), bias) if arrays else None


class _SumOfProducts(RewriteRuleClassBase):
    """V x + a + W y + b = [V W] [x y] + (a + b)."""

    def pattern(self, op: Any, x: Any, v: Any, a: Any, y: Any, w: Any, b: Any) -> Any:
        return op.Add(_product(op, x, v, a), _product(op, y, w, b))

    def rewrite(self, op: Any, x: Any, v: Any, a: Any, y: Any, w: Any, b: Any) -> Any:
        if not (arrays := _arrays(v, a, w, b)):
            return None
        weight, bias = np.hstack(arrays[::2]), arrays[1] + arrays[3]
        return _product(op, op.Concat(x, y, axis=1), _constant(op, weight), _constant(op, bias))


class _SplitProduct(RewriteRuleClassBase):
    """A product split into equal parts, such as a layer's gates: one product each, to be fused with its activation."""

    def __init__(self, count: int) -> None:
        super().__init__("split")
        self.count = count

    def pattern(self, op: Any, x: Any, weight: Any, bias: Any) -> Any:
        return op.Split(_product(op, x, weight, bias), axis=1, num_outputs=self.count, _outputs=self.count)

    def rewrite(self, op: Any, x: Any, weight: Any, bias: Any) -> Any:
        pairs = zip(*(np.split(array, self.count) for array in _arrays(weight, bias)), strict=True)
        return [_product(op, x, _constant(op, w), _constant(op, b)) for w, b in pairs] or None


class _Residual(RewriteRuleClassBase):
    """x + W relu(V y + a) + b = [W b] relu([V 0] y + [a 1]) + x, where one operation multiplies and adds."""

    def pattern(self, op: Any, x: Any, y: Any, v: Any, a: Any, w: Any, b: Any) -> Any:
        return op.Add(x, _product(op, op.Relu(_product(op, y, v, a)), w, b))

    def rewrite(self, op: Any, x: Any, y: Any, v: Any, a: Any, w: Any, b: Any) -> Any:
        if not (arrays := _arrays(v, a, w, b)):
            return None
        v, a, w, b = arrays
        v, a, w = np.vstack([v, 0 * v[:1]]), np.append(a, 1), np.column_stack([w, b])
        return _product(op, op.Relu(_product(op, y, _constant(op, v), _constant(op, a))), _constant(op, w), x)
