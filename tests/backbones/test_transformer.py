"""The transformer's window and memory, and its independence of absolute time."""

import pytest
import torch
from subjects import WIDTH, Subject

from decision_rnn.backbones import Backbone, registered, reset_rows
from decision_rnn.backbones.contract import steps
from decision_rnn.backbones.testing import assert_near, noise

WINDOW, TIME = 4, 11


def make(**options):
    return Subject("transformer", {"window": WINDOW, "heads": 2} | options).build()


@pytest.mark.parametrize("window", [1, 2, 4, 20])
@pytest.mark.parametrize("mode", ["forward", "steps"])
def test_transformer_attends_to_the_last_window_steps(mode, window):
    """The steps at distance 0 to window - 1 and no others."""
    mixer, time = make(window=window), 45
    x = noise(1, time, WIDTH).requires_grad_()
    y, _ = mixer(x) if mode == "forward" else steps(mixer, x, mixer.initial_state(1), None)
    for t in (0, window - 1, window, 21, time - 1):
        (grad,) = torch.autograd.grad(y[0, t].sum(), x, retain_graph=True)
        seen = grad[0].abs().amax(-1).nonzero().flatten().tolist()
        assert seen == list(range(max(0, t - window + 1), t + 1))


def test_transformer_carried_memory_reaches_window_minus_one_steps_back():
    """The query of the next step cannot reach the oldest of the `window` steps in memory."""
    mixer = make()
    _, (keys, values, count) = mixer(noise(2, TIME, WIDTH))
    x = noise(2, TIME, WIDTH, seed=1)
    values = values.detach().requires_grad_()
    for t in range(WINDOW):
        y, _ = mixer(x, (keys, values, count))
        (grad,) = torch.autograd.grad(y[:, t].sum(), values)
        assert grad.abs().amax((0, 2)).gt(0).tolist() == [slot > t for slot in range(WINDOW)]


def test_stacked_transformer_layers_extend_the_reach():
    torch.manual_seed(0)
    config = registered("transformer").config(width=WIDTH, layers=3, heads=2, window=WINDOW)
    backbone = Backbone(config).double()
    x = noise(1, 20, WIDTH).requires_grad_()
    (grad,) = torch.autograd.grad((backbone(x)[0][0, -1] * noise(WIDTH)).sum(), x)
    reach = 3 * (WINDOW - 1) + 1
    assert grad[0].abs().amax(-1).gt(0).tolist() == [t >= 20 - reach for t in range(20)]


def test_transformer_unwritten_memory_slots_are_nan_and_never_read():
    mixer = make()
    initial = mixer.initial_state(2)
    keys, values, count = initial
    assert keys.shape == values.shape == (2, WINDOW, WIDTH)
    assert keys.isnan().all()
    assert values.isnan().all()
    assert count.tolist() == [0, 0]
    x, state = noise(2, TIME, WIDTH), initial
    for t in range(TIME):
        y, state = mixer.step(x[:, t], state)
        written = min(t + 1, WINDOW)
        assert y.isfinite().all()
        for memory in (state, mixer(x[:, : t + 1], initial)[1], mixer(x[:, : t + 1])[1]):
            assert memory[2].tolist() == [written, written]
            unwritten = [slot < WINDOW - written for slot in range(WINDOW)]
            for part in memory[:2]:
                assert part.isnan().all(-1).tolist() == [unwritten] * 2
                assert part[:, WINDOW - written :].isfinite().all()


@pytest.mark.parametrize("mode", ["forward", "steps"])
def test_transformer_memory_after_a_reset_holds_only_the_new_episode(mode):
    mixer, reset = make(), torch.zeros(3, TIME, dtype=torch.bool)
    reset[0, 2] = reset[1, TIME - 2] = reset[2, TIME - 1] = True
    x = noise(3, TIME, WIDTH)
    initial = mixer.initial_state(3)
    y, after = steps(mixer, x, initial, reset) if mode == "steps" else mixer(x, initial, reset)
    keys, values, count = after
    assert y.isfinite().all()
    assert count.tolist() == [WINDOW, 2, 1]
    for part in (keys, values):
        assert part.isnan().all(-1).sum(1).tolist() == [0, WINDOW - 2, WINDOW - 1]
    alone, _ = mixer(x[1:2, -2:])
    assert_near(y[1:2, -2:], alone, 1e-13, "the new episode alone")


def test_reset_rows_clears_transformer_memory():
    mixer = make()
    _, state = mixer(noise(2, TIME, WIDTH))
    keys, values, count = reset_rows(state, mixer.initial_state(2), torch.tensor([True, False]))
    assert keys.isnan().all((1, 2)).tolist() == values.isnan().all((1, 2)).tolist() == [True, False]
    assert count.tolist() == [0, WINDOW]


def test_transformer_ignores_the_contents_of_unwritten_memory_slots():
    """Neither in values nor in gradients: the slots are masked, not multiplied by zero."""
    mixer, x = make(), noise(2, 6, WIDTH)
    _, (keys, values, count) = mixer(noise(2, 2, WIDTH, seed=1))
    right = mixer(x, (keys, values, count))[0]
    for junk in (0.0, 1e6, torch.inf):
        parts = (part.detach().nan_to_num(junk) for part in (keys, values))
        filled = tuple(part.requires_grad_() for part in parts)
        for y in (mixer(x, (*filled, count))[0], steps(mixer, x, (*filled, count), None)[0]):
            assert_near(y, right, 1e-13, f"unwritten slots of {junk}")
            for grad in torch.autograd.grad(y.square().sum(), filled):
                assert torch.count_nonzero(grad[:, : WINDOW - 2]) == 0
                assert grad[:, WINDOW - 1 :].abs().min() > 0


def test_transformer_positions_are_accurate_after_ten_thousand_steps():
    """A layer's output depends only on the last `window` steps, however late, also in float32."""
    mixer = make().float()
    x = noise(1, 10_000, WIDTH, dtype=torch.float32)
    with torch.no_grad():
        y, state = mixer(x)
        late, _ = mixer.step(noise(1, WIDTH, dtype=torch.float32, seed=2), state)
        again, state = mixer(x[:, -WINDOW:])
        early, _ = mixer.step(noise(1, WIDTH, dtype=torch.float32, seed=2), state)
    assert_near(y[:, -1], again[:, -1], 1e-5, "forward")
    assert_near(late, early, 1e-5, "step")


def test_transformer_output_depends_on_step_order():
    mixer = make()
    x = noise(1, WINDOW, WIDTH)
    swapped = x[:, [1, 0, 2, 3]]
    assert (mixer(x)[0][:, -1] - mixer(swapped)[0][:, -1]).abs().max() > 1e-4


@pytest.mark.parametrize(("width", "heads"), [(6, 2), (7, 1), (8, 3)])
def test_transformer_width_without_even_width_per_head_raises(width, heads):
    with pytest.raises(ValueError, match="width") as error:
        registered("transformer").config(width=width, heads=heads)
    for said in ("width", "heads", str(width), str(heads)):
        assert said in str(error.value)
