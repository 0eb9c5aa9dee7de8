"""Mixers that are parallel within chunks of time: chunk boundaries."""

from functools import partial

import pytest
import torch
from subjects import Subject, gradients

from decision_rnn.backbones.contract import run_stepwise
from decision_rnn.backbones.retention import CHUNK
from decision_rnn.backbones.testing import assert_near, forward, noise

SUBJECTS = [Subject("mlstm", {"heads": 2}), Subject("retention", {"heads": 2}), Subject("s4d", {"state_size": 6})]


@pytest.mark.parametrize("time", [CHUNK, CHUNK + 1, 2 * CHUNK + 3])
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_chunk_boundaries_change_neither_values_nor_gradients(subject, time):
    """More steps than a chunk holds, with episodes that start at a chunk boundary and that span two chunks."""
    module, x = subject.build(), noise(2, time, 8)
    reset = torch.zeros(2, time, dtype=torch.bool)
    reset[0, CHUNK - 1] = True
    reset[1, CHUNK:][:1] = True
    state = tuple(part.detach() for part in module(noise(2, 5, 8, seed=2))[1])
    loop = partial(subject.naive, dict(module.named_parameters()))
    right = gradients(lambda x, state: loop(x, state, reset), module, x, state)
    pieces = [CHUNK // 2 + 1, time - CHUNK // 2 - 1]
    for run in (partial(forward, module), partial(run_stepwise, module), partial(forward, module, lengths=pieces)):
        found = gradients(lambda x, state: run(x, state, reset=reset), module, x, state)  # noqa: B023
        assert_near(found, right, 1e-12, str(run))
