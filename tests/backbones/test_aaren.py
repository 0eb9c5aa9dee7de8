"""Aaren against torch's attention with one query, and with scores far apart."""

import pytest
import torch
import torch.nn.functional as F
from subjects import gradients

from decision_rnn.backbones import registered
from decision_rnn.backbones.contract import steps
from decision_rnn.testing import assert_near, noise

WIDTH, TIME = 8, 30


def make(far=1.0, **options):
    torch.manual_seed(0)
    mixer = registered("aaren").cls(registered("aaren").config(width=WIDTH, **options)).double()
    with torch.no_grad():
        mixer.query.mul_(far)
    return mixer


def attention(mixer, x):
    """The learned query attends to all steps up to each step."""
    heads, width = mixer.query.shape
    key, value = (part.unflatten(-1, (heads, width)).transpose(1, 2) for part in mixer.kv(x).chunk(2, dim=-1))
    query = mixer.query[:, None].expand(len(x), heads, x.shape[1], width)
    return mixer.output(F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("far", [1.0, 1000.0])
@pytest.mark.parametrize("heads", [1, 2, 8])
def test_aaren_equals_torch_scaled_dot_product_attention(heads, far):
    mixer = make(far, heads=heads)
    x, named = noise(2, TIME, WIDTH), dict(mixer.named_parameters())
    right = attention(mixer, x)
    for run in (mixer, lambda x: steps(mixer, x, mixer.initial_state(2), None)):
        assert_near(run(x)[0], right, 1e-12, "output")
        found = gradients(lambda x, _: (run(x)[0], ()), named, x, ())  # noqa: B023
        for key, slope in gradients(lambda x, _: (attention(mixer, x), ()), named, x, ()).items():
            # A softmax ignores the score's constant bias: its gradient is 0 up to rounding.
            assert (found[key] - slope).abs().max() <= 1e-11 * slope.abs().max().clamp_min(1), key


def test_aaren_with_scores_far_apart_stays_finite_in_float32():
    mixer = make(1000.0, heads=2).float()
    x = noise(1, 200, WIDTH, dtype=torch.float32).requires_grad_()
    reset = noise(1, 200, seed=1) > 1
    y, (top, sums) = mixer(x, None, reset)
    score = (mixer.kv(x)[..., :WIDTH].unflatten(-1, (2, -1)) * mixer.query).sum(-1)
    assert score.abs().max() > 1000
    for part in (y, top, sums, *torch.autograd.grad(y.square().sum(), [x, *mixer.parameters()])):
        assert part.isfinite().all()
