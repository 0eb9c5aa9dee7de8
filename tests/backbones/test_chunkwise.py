"""Mixers that are parallel within chunks of time: chunk boundaries, and retention's decay, first steps and options."""

import pytest
import torch
from subjects import Subject

from decision_rnn.backbones import registered
from decision_rnn.backbones.retention import CHUNK
from decision_rnn.testing.harness import assert_near, assert_same, forward, gradients, noise, steps

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


def test_retention_state_of_version_0_2_decays_at_the_papers_rates():
    """1 - 2^-5, 1 - 2^-6, ...: the factor on the state's norm in a step with zero input. Weights did not hold them."""
    mixer = registered("retention").cls(registered("retention").config(width=64)).double()
    saved = mixer.state_dict()
    assert set(saved) == {"gamma", "qkvg.weight", "output.weight"}
    mixer.load_state_dict({name: weight for name, weight in saved.items() if name != "gamma"})
    state = noise(1, *mixer.initial_state(1)[0].shape[1:])
    _, (after,) = mixer.step(torch.zeros(1, 64).double(), (state,))
    sizes = [part.square().sum((0, 2, 3)).sqrt() for part in (after, state)]  # rotation keeps the norm
    torch.testing.assert_close(sizes[0] / sizes[1], torch.tensor([31 / 32, 63 / 64, 127 / 128, 255 / 256]).double())


def test_retention_first_steps_are_accurate_in_float32():
    """Their norm magnifies the rounding of q.k; here every step is the first of an episode."""
    subject, reset = Subject("retention", {"heads": 2}), torch.ones(1000, 30, dtype=torch.bool)
    x = noise(*reset.shape, 8, dtype=torch.float32)
    with torch.no_grad():
        for given in (reset, torch.zeros_like(reset)[:, :1]):
            y, _ = subject.build(torch.float32)(x[:, : given.shape[1]], None, given)
            right, _ = subject.build()(x[:, : given.shape[1]].double(), None, given)
            assert_near(y, right, 1e-6, "first steps")


@pytest.mark.parametrize("options", [{"heads": 3}, {"heads": 0}, {"heads": 2, "expansion": 1.01}])
def test_retention_heads_not_dividing_the_widths_raise(options):
    with pytest.raises(ValueError, match=r"backbone\.width 8 .*backbone\.heads"):
        registered("retention").config(width=8, **options)
