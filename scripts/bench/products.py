"""The matrix products of a piece of work, replayed alone: what it would cost if nothing else cost anything."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

PRODUCTS = {torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.aten.baddbmm}


class _Recorder(TorchDispatchMode):
    """Keeps the matrix products that run under it, with copies of their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable[..., object], Any, Any]] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), keywords: dict[str, Any] | None = None
    ) -> Any:
        keywords = keywords or {}
        if function.overloadpacket in PRODUCTS:
            self.calls.append((function, *tree_map_only(Tensor, torch.clone, (arguments, keywords))))
        return function(*arguments, **keywords)


def products_of(work: Callable[[], object]) -> Callable[[], None]:
    """Do the work once; returns a function that does its matrix products again, of the same shapes and types.

    Forward and backward passes alike. Products inside a fused kernel, such as that of scaled-dot-product attention, are
    no operators of their own and are left out.
    """
    with _Recorder() as recorder:
        work()

    @torch.no_grad()
    def replay() -> None:
        for function, arguments, keywords in recorder.calls:
            function(*arguments, **keywords)

    return replay
