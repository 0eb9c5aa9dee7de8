"""Agreement with independent implementations after copying their weights. For torch's own modules, see
test_recurrent.py and test_aaren.py."""

import pytest
import torch
from mambapy.mamba import MambaBlock, MambaConfig
from minGRU_pytorch.minGRU import minGRU
from minGRU_pytorch.minLSTM import minLSTM

from decision_rnn.backbones import registered
from decision_rnn.backbones.testing import assert_near, noise

WIDTH, BATCH, TIME = 8, 3, 20


def grad_of(y, x):
    return torch.autograd.grad((y * noise(*y.shape, seed=1)).sum(), x)[0]


@pytest.mark.parametrize("expansion", [1.0, 1.5])
@pytest.mark.parametrize(("name", "theirs", "maps"), [("mingru", minGRU, 2), ("minlstm", minLSTM, 3)])
def test_mingru_and_minlstm_equal_mingru_pytorch(name, theirs, maps, expansion):
    """Its linear maps have no bias and another order: the candidate first."""
    peer = theirs(WIDTH, expansion).double()
    config = registered(name).config(width=WIDTH, expansion=expansion)
    ours, x = registered(name).cls(config).double(), noise(BATCH, TIME, WIDTH).requires_grad_()
    with torch.no_grad():
        joint = next(layer for key, layer in peer.named_children() if key.startswith("to_hidden_and"))
        candidate, *gates = joint.weight.chunk(maps)
        ours.gates.weight.copy_(torch.cat([*gates, candidate]))
        ours.gates.bias.zero_()
        if expansion != 1:
            ours.output.weight.copy_(peer.to_out.weight)
            ours.output.bias.zero_()
    (y, _), right = ours(x), peer(x)
    assert_near(y, right, 1e-12, "output")
    assert_near(grad_of(y, x), grad_of(right, x), 1e-11, "gradient of x")


def test_mamba_equals_mambapy():
    """Its parallel scan over the whole slice, and its step."""
    peer = MambaBlock(MambaConfig(d_model=WIDTH, n_layers=1, d_state=5)).double()
    ours = registered("mamba").cls(registered("mamba").config(width=WIDTH, state_size=5)).double()
    names = {
        "input.weight": "in_proj.weight",
        "convolution.weight": "conv1d.weight",
        "convolution.bias": "conv1d.bias",
        "selection.weight": "x_proj.weight",
        "dt.weight": "dt_proj.weight",
        "dt.bias": "dt_proj.bias",
        "a_log": "A_log",
        "d": "D",
        "output.weight": "out_proj.weight",
    }
    theirs = peer.state_dict()
    ours.load_state_dict({name: theirs[other].double() for name, other in names.items()})
    x = noise(BATCH, TIME, WIDTH).requires_grad_()
    (y, state), right = ours(x), peer(x)
    assert_near(y, right, 1e-6, "output")  # it computes A in float32
    assert_near(grad_of(y, x), grad_of(right, x), 1e-6, "gradient of x")
    past, h = state
    next_x = noise(BATCH, WIDTH, seed=2)
    stepped, _ = peer.step(next_x, (h, past.transpose(1, 2)))
    assert_near(ours.step(next_x, state)[0], stepped, 1e-6, "step")
