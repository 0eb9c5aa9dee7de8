"""Layers with exponential gates or keys, aaren, mlstm, rwkv and slstm, where the unstabilised equations overflow; and
their agreement with other forms of the papers' equations."""

import pytest
import torch
import torch.nn.functional as F
from subjects import WIDTH, gradients, make

from decision_rnn.backbones.contract import run_stepwise
from decision_rnn.backbones.testing import add_noise, assert_near, named, noise

TIME = 12


def saturated(name, first, second, dtype):
    """mLSTM or sLSTM with biases of the forget and the input gate; Aaren or RWKV with scores or keys so many times as
    large."""
    mixer = add_noise(make(name, **({} if name == "rwkv" else {"heads": 2})))
    with torch.no_grad():
        if name == "mlstm":
            mixer.gates.bias[:2], mixer.gates.bias[2:] = first, second
        elif name == "slstm":
            bias = mixer.gates.bias.view(2, 4, -1)
            bias[:, 1], bias[:, 2] = second, first
        else:
            (mixer.query if name == "aaren" else mixer.key.weight).mul_(first)
    return mixer.to(dtype)


BIASES = [
    (name, *biases)
    for name in ("mlstm", "slstm")
    for biases in ((-120, -120), (-120, 120), (120, -120), (120, 120), (0, 0))
]
SIZES = [("rwkv", 1, None), ("rwkv", 200, None), ("aaren", 1, None), ("aaren", 200, None)]


@pytest.mark.parametrize(("name", "first", "second"), [*BIASES, *SIZES])
def test_saturated_gates_are_finite_and_accurate_in_float32(name, first, second):
    """Finite values and gradients in float32, values near float64, and the same step by step."""
    x, reset = noise(2, TIME, WIDTH), noise(2, TIME, seed=1) > 1
    exact, mixer = (saturated(name, first, second, dtype) for dtype in (torch.float64, torch.float32))
    right = named(exact(x, None, reset))
    # exp of a gate whose own rounding is its size times 6e-8
    tolerance = 1e-4 if second is not None else 2e-6 * max(first, 5)
    for run in (mixer, lambda *arguments: run_stepwise(mixer, *arguments)):
        found = gradients(lambda x, _: run(x, None, reset), mixer, x.float())  # noqa: B023
        for key in [key for key in found if key.startswith("gradient")]:
            assert found.pop(key).isfinite().all(), key
        assert_near(found, right, tolerance, "float32")
    assert_near(named(run_stepwise(exact, x, None, reset)), right, 1e-12, "steps")


def test_mlstm_closed_forget_gate_keeps_the_accuracy_of_others():
    """Summed from the start of the chunk, -1e6 at the second step would leave no digits of the later ones."""
    mixer, right = (saturated("mlstm", 0, 0, dtype) for dtype in (torch.float32, torch.float64))
    x = noise(1, TIME, WIDTH, dtype=torch.float32)
    with torch.no_grad():
        mixer.gates.weight.zero_()
        mixer.gates.weight[:2, 0], mixer.qkvo.weight[:, 0] = 1, 0
        x[0, :, 0], x[0, 1, 0] = 3, -1e6
        right.load_state_dict({key: value.double() for key, value in mixer.state_dict().items()})
        assert_near(mixer(x)[0], right(x.double())[0], 1e-5, "output")


def test_mlstm_gates_start_independent_of_the_input():
    mixer = make("mlstm", width=64, heads=4)
    assert torch.count_nonzero(mixer.gates.weight) == 0
    assert mixer.gates.bias[:4].diff().max() < 0  # from the slowest head to the fastest
    assert mixer.gates.bias[4:].abs().max() < 0.6


def test_slstm_starts_without_mixing_and_all_half_lives_in_each_head():
    mixer = make("slstm", width=64, heads=4, init_half_life=1000)
    assert torch.count_nonzero(mixer.recurrent) == 0
    half_lives = -1 / torch.log2(torch.sigmoid(mixer.gates.bias.view(4, 4, 16)[:, 2]))
    assert (half_lives.amax(1) > 500).all()
    assert (half_lives.amin(1) < 2).all()


def test_rwkv_equals_the_papers_sum_over_earlier_steps():
    """One pair of steps at a time."""
    mixer, x = add_noise(make("rwkv")), noise(2, TIME, WIDTH)
    previous = torch.cat([torch.zeros(2, 1, WIDTH), x[:, :-1]], dim=1)
    maps = (mixer.receptance, mixer.key, mixer.value)
    r, k, v = (part(mu * x + (1 - mu) * previous) for mu, part in zip(mixer.mix, maps, strict=True))
    w, outputs = torch.exp(mixer.decay_log), []
    for t in range(TIME):
        weights = [torch.exp(-(t - 1 - i) * w + k[:, i]) for i in range(t)] + [torch.exp(mixer.bonus + k[:, t])]
        mean = sum(weight * v[:, i] for i, weight in enumerate(weights)) / sum(weights)
        outputs.append(mixer.output(torch.sigmoid(r[:, t]) * mean))
    assert_near(mixer(x)[0], torch.stack(outputs, dim=1), 1e-12, "output")


@pytest.mark.parametrize("far", [1.0, 1000.0])
@pytest.mark.parametrize("heads", [1, 2, 8])
def test_aaren_equals_torch_scaled_dot_product_attention(heads, far):
    """The learned query attends to all steps up to each step."""
    mixer, x = make("aaren", heads=heads), noise(2, 30, WIDTH)
    mixer.query.data.mul_(far)

    def attention(x, _):
        key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in mixer.kv(x).chunk(2, dim=-1))
        query = mixer.query[:, None].expand(len(x), heads, x.shape[1], -1)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return mixer.output(y.transpose(1, 2).flatten(2)), ()

    right = gradients(attention, mixer, x)
    for run in (mixer, lambda x: run_stepwise(mixer, x)):
        found = gradients(lambda x, _: (run(x)[0], ()), mixer, x)  # noqa: B023
        assert_near(found.pop("output"), right["output"], 1e-12, "output")
        for key, slope in found.items():
            # A softmax ignores the score's constant bias: its gradient is 0 up to rounding.
            assert (slope - right[key]).abs().max() <= 1e-11 * right[key].abs().max().clamp_min(1), key
