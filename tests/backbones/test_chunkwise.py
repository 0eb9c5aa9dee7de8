"""Mixers that are parallel within chunks of time: chunk boundaries, and retention's decay, first steps and options."""

import pytest
import torch
from subjects import Subject, assert_same, gradients

from decision_rnn.backbones.contract import steps
from decision_rnn.backbones.retention import CHUNK
from decision_rnn.testing import assert_near, forward, noise

SUBJECTS = [Subject("mlstm", {"heads": 2}), Subject("retention", {"heads": 2}), Subject("s4d", {"state_size": 6})]


@pytest.mark.parametrize("time", [CHUNK, CHUNK + 1, 2 * CHUNK + 3])
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_chunk_boundaries_do_not_change_outputs_or_gradients(subject, time):
    """More steps than a chunk holds, with episodes that start at a chunk boundary and that span two chunks."""
    module, x = subject.build(), noise(2, time, 8)
    reset = torch.zeros(2, time, dtype=torch.bool)
    reset[0, CHUNK - 1] = True
    if time > CHUNK:
        reset[1, CHUNK] = True
    _, state = module(noise(2, 5, 8, seed=2))
    named = dict(module.named_parameters())

    def naive(x, state):
        return subject.naive(named, x, state, reset)

    right, slopes = naive(x, state), gradients(naive, named, x, tuple(part.detach() for part in state))
    for run in (
        lambda x, state: module(x, state, reset),
        lambda x, state: steps(module, x, state, reset),
        lambda x, state: forward(module, x, state, reset, [CHUNK // 2 + 1, time - CHUNK // 2 - 1]),
    ):
        assert_same(run(x, state), right, 1e-12, "values")
        for key, grad in gradients(run, named, x, tuple(part.detach() for part in state)).items():
            assert_near(grad, slopes[key], 1e-12, f"gradient of {key}")
