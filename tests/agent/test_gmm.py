"""The mixture objective: its likelihood against scipy, data that go two ways, sampled modes."""

import gymnasium
import numpy as np
import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from small_objective import ACTIONS, WIDTH, slices, small_objective
from torch import Tensor

from decision_rnn.agent import (
    GMMConfig,
    MSEConfig,
    Objective,
    ObjectiveConfig,
)
from decision_rnn.agent.objectives.gmm import GMM


def make(config: ObjectiveConfig | None = None, actions: gymnasium.Space | None = None) -> Objective:
    return small_objective(config or GMMConfig(num_components=4), actions)


def test_loss_is_the_negative_log_likelihood_of_the_mixture() -> None:
    mixture = make(GMMConfig(num_components=4, min_std=0.3))
    assert isinstance(mixture, GMM)
    hidden, action = torch.randn(2, 5, WIDTH), torch.rand(2, 5, ACTIONS) * 2 - 1
    loss, metrics = mixture.loss(hidden, slices(action))
    out = F.linear(hidden, mixture.head.weight, mixture.head.bias).detach().double().numpy()
    logits, means, scales = np.split(out, [4, 4 + 4 * ACTIONS], axis=-1)
    means, scales = (part.reshape(2, 5, 4, ACTIONS) for part in (np.tanh(means), scales))
    density = scipy.stats.norm.pdf(action.double().numpy()[:, :, None], means, np.log1p(np.exp(scales)) + 0.3)
    probability = (scipy.special.softmax(logits, axis=-1) * density.prod(-1)).sum(-1)
    assert loss.item() == pytest.approx(-np.log(probability).mean(), rel=1e-5)
    chosen = np.take_along_axis(means, logits.argmax(-1)[..., None, None], axis=2)[:, :, 0]
    np.testing.assert_allclose(mixture.action(hidden).detach(), chosen, atol=1e-6)
    error = np.square(chosen - action.double().numpy()).mean()
    assert metrics["squared_error"].item() == pytest.approx(error, rel=1e-5)


def fitted(objective: Objective, action: Tensor) -> Objective:
    """Trained on actions at a state that does not say which of them comes."""
    hidden = torch.ones(*action.shape[:2], WIDTH)
    optimizer = torch.optim.Adam(objective.parameters(), 0.02)
    for _ in range(400):
        loss, _ = objective.loss(hidden, slices(action))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return objective.requires_grad_(False)


def test_agent_takes_one_of_two_ways_where_squared_error_takes_their_mean() -> None:
    """Three quarters of the data go right by 0.6, the rest go left; sampled, so do the actions."""
    right = torch.rand(64, 16, 1, generator=torch.Generator().manual_seed(0)) < 0.75
    action = torch.where(right, 0.6, -0.6) + 0.02 * torch.randn(64, 16, ACTIONS)
    here = torch.ones(4000, WIDTH)
    mixture = fitted(make(), action)
    assert (mixture.action(here) - 0.6).abs().max() < 0.05
    drawn = mixture.sample(here)
    assert (drawn.abs() - 0.6).abs().max() < 0.05
    assert (drawn > 0).float().mean().item() == pytest.approx(right.float().mean().item(), abs=0.05)
    mean = fitted(make(MSEConfig()), action).action(here)
    assert (mean - action.mean((0, 1))).abs().max() < 0.05


def test_discrete_actions_have_the_cross_entropy() -> None:
    space = gymnasium.spaces.MultiDiscrete([2, 3])
    mixture = make(actions=space)
    taken = torch.randint(6, (2, 5), generator=torch.Generator().manual_seed(1))
    action = torch.cat([F.one_hot(taken % 2, 2), F.one_hot(taken % 3, 3)], dim=-1).float()
    hidden = torch.randn(2, 5, WIDTH)
    loss, metrics = mixture.loss(hidden, slices(action))
    weight, bias = (parameter.detach().double().numpy() for parameter in (mixture.head.weight, mixture.head.bias))
    scores = hidden.double().numpy() @ weight.T + bias
    entries = [scipy.special.log_softmax(entry, axis=-1) for entry in (scores[..., :2], scores[..., 2:])]
    expected = -(np.concatenate(entries, axis=-1) * action.numpy()).sum(-1).mean()
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert set(metrics) == {"accuracy"}
    assert mixture.samples


def test_mixture_needs_a_mode_and_a_width() -> None:
    with pytest.raises(ValueError, match="num_components"):
        GMMConfig(num_components=0)
    for width in (0.0, -0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="min_std"):
            GMMConfig(min_std=width)
