"""Muon: its updates against singular values and torch's own, the matrices that it trains, and skipped steps."""

import math

import pytest
import torch
from torch import Tensor

from decision_rnn.agent import DecisionAgent, ReturnToGoConfig, agent_spec
from decision_rnn.backbones import registered_names
from decision_rnn.config import from_dict
from decision_rnn.training.muon import Muon, orthogonalize
from decision_rnn.training.optimizer import optimizers
from decision_rnn.training.trainer import Trainer

SHAPES = [(6, 4), (4, 6), (6, 4), (5, 5), (1, 3)]


def matrices(seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in SHAPES]


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_orthogonalized_matrices_keep_their_singular_vectors_and_have_singular_values_near_one(scale: float) -> None:
    given = torch.randn(3, 8, 20, generator=torch.Generator().manual_seed(0)) * scale
    u, _, vh = torch.linalg.svd(given, full_matrices=False)
    inner = u.mT @ orthogonalize(given) @ vh.mT
    values = inner.diagonal(dim1=1, dim2=2)
    assert values.min() > 0.65
    assert values.max() < 1.25
    assert (inner - values.diag_embed()).abs().max() < 1e-3


def test_muon_takes_the_steps_of_torch() -> None:
    """torch's products are in bf16, ours here in float32: the weights differ by that rounding."""
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("torch.optim.Muon is of torch 2.9 and later")
    ours, theirs = (list(map(torch.nn.Parameter, matrices(0))) for _ in range(2))
    settings = {"lr": 0.1, "weight_decay": 0.3, "momentum": 0.9}
    pair = Muon(ours, **settings), torch.optim.Muon(theirs, **settings, adjust_lr_fn="match_rms_adamw")
    for step in range(5):
        for parameters, optimizer in zip((ours, theirs), pair, strict=True):
            for parameter, gradient in zip(parameters, matrices(step + 1), strict=True):
                parameter.grad = gradient
            optimizer.step()
    for one, other, first in zip(ours, theirs, matrices(0), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0.02 * (one - first).abs().max().item())


def test_first_step_of_muon_is_the_rate_times_the_scale_of_the_larger_side() -> None:
    wide = torch.nn.Parameter(torch.zeros(2, 50))
    wide.grad = torch.eye(2, 50) * 7
    Muon([wide], lr=0.5).step()
    size = 0.5 * 0.2 * math.sqrt(50)
    assert (-wide.detach() / size).diagonal().tolist() == pytest.approx([0.9, 0.9], abs=0.3)
    assert wide.detach().norm() == pytest.approx(wide.detach().diagonal().norm())


def test_skipped_step_of_muon_changes_neither_weights_nor_momentum() -> None:
    ours = list(map(torch.nn.Parameter, matrices(0)))
    optimizer = Muon(ours, lr=0.1, weight_decay=0.3)
    for parameter, gradient in zip(ours, matrices(1), strict=True):
        parameter.grad = gradient
    optimizer.step()
    before = [(p.detach().clone(), optimizer.state[p]["momentum"].clone()) for p in ours]
    for parameter in ours:
        parameter.grad = torch.full_like(parameter, math.nan)
    optimizer.found_inf = torch.ones(())
    optimizer.step()
    for parameter, (weight, momentum) in zip(ours, before, strict=True):
        assert torch.equal(parameter, weight)
        assert torch.equal(optimizer.state[parameter]["momentum"], momentum)
    optimizer.found_inf = torch.zeros(())
    for parameter, gradient in zip(ours, matrices(2), strict=True):
        parameter.grad = gradient
    optimizer.step()
    assert all(not torch.equal(p, weight) and p.isfinite().all() for p, (weight, _) in zip(ours, before, strict=True))


def agent_of(backbone: str) -> tuple[DecisionAgent, Trainer[DecisionAgent]]:
    keys = {"dataset": "hopper-medium", "backbone": backbone, "backbone.width": 8, "training.optimizer": "muon"}
    config = from_dict(keys, "the test")
    spec = agent_spec(torch.zeros(3), torch.ones(3), 2)
    condition = ReturnToGoConfig(rtg_quantile=0.0)
    agent = DecisionAgent(config.agent, config.backbone, spec, condition, config.objective_options)
    return agent, Trainer(agent, config.training)


@pytest.mark.parametrize("backbone", registered_names())
def test_muon_trains_the_matrices_of_the_backbone_and_adamw_all_other_parameters(backbone: str) -> None:
    agent, trainer = agent_of(backbone)
    adamw, muon = trainer.optimizers
    names = {id(p): name for name, p in agent.named_parameters()}
    of_muon, of_adamw = ([names[id(p)] for group in of.param_groups for p in group["params"]] for of in (muon, adamw))
    assert sorted(of_muon + of_adamw) == sorted(names.values())
    recurrent = {
        name
        for of, mixer in agent.backbone.named_modules(prefix="backbone")
        if hasattr(mixer, "recurrent_parameters")
        for name in (names[id(p)] for p in mixer.recurrent_parameters())
    }
    for name, parameter in agent.named_parameters():
        hidden = name.startswith("backbone.") and parameter.dim() == 2 and name not in recurrent
        assert (name in of_muon) == hidden, name


def test_adamw_alone_trains_everything() -> None:
    agent, _ = agent_of("mingru")
    settings = from_dict({"dataset": "hopper-medium"}, "the test").training
    (adamw,) = optimizers(agent, settings, bf16=False)
    assert isinstance(adamw, torch.optim.AdamW)
    assert sum(len(group["params"]) for group in adamw.param_groups) == len(list(agent.parameters()))
