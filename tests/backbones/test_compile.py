"""torch.compile takes every layer with its gradients into one graph, which serves wherever episodes begin.

The graph is traced for the compiler, differentiated and run by torch's own kernels, without a C++ compiler.
"""

import pytest
import torch
from subjects import SMALL, Subject
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from decision_rnn.backbones import Backbone, State, registered_names
from decision_rnn.testing.harness import assert_near, noise

BATCH, TIME = 3, 4
PATTERNS = ".... .... ....", "..x. .x.x x...", "x... .... ...x"
ONE_FOR_ALL = ("aaren", "gru", "hgrn", "lru", "lstm", "mingru", "minlstm", "mlp", "rnn", "rwkv", "scrn", "slstm")
"""Layers whose graph does not depend on how many episodes begin; the others give each of them a row of its own, within
a block, which here is longer than the slices."""


def resets(pattern: str) -> Tensor:
    return torch.tensor([[step == "x" for step in row] for row in pattern.split()])


def outputs_and_gradients(run: object, backbone: Backbone, x: Tensor, state: State, reset: Tensor) -> list[Tensor]:
    y, after = run(x, state, reset)
    parts = [y, *(part for part in after if part.is_floating_point())]
    total = sum((part.nan_to_num(0, 0, 0) * noise(*part.shape, seed=i)).sum() for i, part in enumerate(parts))
    return [*(part.detach() for part in parts), *torch.autograd.grad(total, list(backbone.parameters()))]


@pytest.mark.parametrize("name", registered_names())
def test_backbone_compiles_into_one_graph_with_its_gradients(name: str) -> None:
    if name not in ONE_FOR_ALL:
        pytest.xfail("run_blocks reads where episodes begin on the host")
    torch._dynamo.reset()
    options = {"heads": 2} if name == "transformer" else SMALL.get(name, [{}])[0]
    backbone = Subject(name, options, layers=1).build(torch.float64)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(backbone, backend=counter, fullgraph=True)
    x, state = noise(BATCH, TIME, backbone.norm.normalized_shape[0]), backbone.initial_state(BATCH)
    for pattern in PATTERNS:
        reset = resets(pattern)
        right = outputs_and_gradients(backbone, backbone, x, state, reset)
        found = outputs_and_gradients(compiled, backbone, x, state, reset)
        for here, there in zip(found, right, strict=True):
            assert_near(here.nan_to_num(), there.nan_to_num(), 1e-11, f"{name} with resets {pattern}")
        state = tuple(part.detach() for part in backbone(x, state, reset)[1])
    assert counter.frame_count == 1 or name not in ONE_FOR_ALL
