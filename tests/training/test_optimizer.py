"""The optimisers: parameter groups, what Muon trains, and its update."""

from dataclasses import replace

import pytest
import torch
from agent_specs import agent_spec
from torch import nn

from decision_rnn.agent import DecisionAgent
from decision_rnn.backbones import BACKBONES, registered
from decision_rnn.config import TrainingConfig, from_dict
from decision_rnn.training.optimizer import make_optimizers, optimizer_groups

NOT_MATRICES = {"Aaren.query", "Conv.weight", "H3.shift", "LSTM.peepholes", "RWKV.mix"}
"""Tables in two dimensions, of which a linear map has none."""


def make_agent(backbone: str) -> tuple[DecisionAgent, TrainingConfig]:
    keys = {"dataset": "hopper-medium", "backbone": backbone, "backbone.width": 8, "training.optimizer": "muon"}
    config = from_dict(keys | {"backbone.layers": 2}, "the test")
    spec = agent_spec(torch.zeros(3), torch.ones(3), 2)
    condition = replace(config.condition, rtg_quantile=0.0)
    return DecisionAgent(config.agent, config.backbone, spec, condition, config.objective), config.training


@pytest.mark.parametrize("backbone", BACKBONES.names())
def test_muon_trains_only_the_matrices_of_the_backbone(backbone: str) -> None:
    agent, settings = make_agent(backbone)
    optimizers = make_optimizers(agent, settings)
    adamw, muon = ({p for group in optimizer.param_groups for p in group["params"]} for optimizer in optimizers)
    assert adamw | muon == set(agent.parameters())
    assert not adamw & muon
    for path, module in agent.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            linear = isinstance(module, nn.Linear | nn.RNNBase) and parameter.dim() == 2
            assert (parameter in muon) == (path.startswith("backbone.") and linear), f"{path}.{name}"
            if f"{type(module).__name__}.{name}" in NOT_MATRICES:
                assert parameter in adamw


def test_adamw_alone_trains_everything() -> None:
    agent, settings = make_agent("mingru")
    (adamw,) = make_optimizers(agent, replace(settings, optimizer="adamw"))
    assert isinstance(adamw, torch.optim.AdamW)
    assert sum(len(group["params"]) for group in adamw.param_groups) == len(list(agent.parameters()))


def test_muon_update_is_orthogonal_and_as_large_as_adamws() -> None:
    """0.2 sqrt(max(rows, columns)) U V', by the singular vectors of the first gradient."""
    agent, settings = make_agent("mingru")
    settings = replace(settings, weight_decay=0.0, learning_rate=0.5)
    _, muon = make_optimizers(agent, settings)
    (matrix, *_) = muon.param_groups[0]["params"]
    before = matrix.detach().clone()
    matrix.grad = torch.randn(matrix.shape, generator=torch.Generator().manual_seed(0))
    muon.step()
    u, _, vh = torch.linalg.svd(matrix.grad, full_matrices=False)
    change = (u.mT @ (before - matrix.detach()) @ vh.mT) / (0.5 * 0.2 * max(matrix.shape) ** 0.5)
    values = change.diagonal()
    assert values.min() > 0.6
    assert values.max() < 1.3
    assert (change - values.diag()).abs().max() < 0.05  # the products are in bf16


def rates_by_name(model: torch.nn.Module, *settings: float) -> dict[str, tuple[float, float]]:
    """Learning rate and weight decay of every parameter, in the optimiser's order."""
    names = {id(p): name for name, p in model.named_parameters()}
    groups = optimizer_groups(model, *settings)
    return {names[id(p)]: (group["lr"], group["weight_decay"]) for group in groups for p in group["params"]}


@pytest.mark.parametrize(
    ("backbone", "learning_rate", "recurrent", "rate"),
    [
        ("lru", 1e-3, {"nu_log", "theta_log", "gamma_log", "b"}, 0.5e-3),  # minimal-LRU: half the rate
        ("s4d", 1e-3, {"dt_log", "a_log", "a_imag"}, 1e-3),  # state-spaces/s4: min(0.001, the rate)
        ("s4d", 5e-3, {"dt_log", "a_log", "a_imag"}, 1e-3),
        ("s4d", 1e-4, {"dt_log", "a_log", "a_imag"}, 1e-4),
        ("h3", 5e-3, {"dt_log", "a_log", "a_imag"}, 1e-3),
        ("mamba", 5e-3, {"a_log"}, 5e-3),  # state-spaces/mamba: no weight decay, nothing else
    ],
)
def test_recurrent_parameters_have_the_rate_of_their_paper(
    backbone: str, learning_rate: float, recurrent: set[str], rate: float
) -> None:
    agent, _ = make_agent(backbone)
    rates = rates_by_name(agent, learning_rate, 0.1)
    own = {name for name in rates if ".mixer." in name and name.split(".")[-1] in recurrent}
    assert len(own) == 2 * len(recurrent)
    assert {rates[name] for name in own} == {(rate, 0.0)}
    others = {name: rates[name] for name in rates.keys() - own}
    assert {lr for lr, _ in others.values()} == {learning_rate}
    for name, (_, decay) in others.items():
        assert decay == (0.1 if agent.get_parameter(name).dim() >= 2 else 0.0), name


def test_optimizer_groups_use_mixer_rates_in_any_module() -> None:
    """Mixers of several kinds, without an agent; a shared one counts once."""
    mixers = {
        name: registered(name).cls(registered(name).config(name=name, width=4)) for name in ("lru", "mamba", "gru")
    }
    model = torch.nn.ModuleDict({**mixers, "again": mixers["lru"], "head": torch.nn.Linear(4, 2)})
    rates = rates_by_name(model, 1e-2, 0.1)
    assert rates.keys() == {name for name, _ in model.named_parameters()}
    assert rates["lru.nu_log"] == (0.5e-2, 0.0)
    assert rates["mamba.a_log"] == (1e-2, 0.0)
    assert rates["gru.cell.weight_hh_l0"] == rates["head.weight"] == (1e-2, 0.1)
    assert rates["mamba.d"] == rates["head.bias"] == (1e-2, 0.0)


def test_optimizer_groups_keep_parameter_order() -> None:
    """A saved training state refers to parameters by their position: matrices, vectors, recurrent parameters."""
    agent, _ = make_agent("lru")
    group = {name: int(parameter.dim() < 2) for name, parameter in agent.named_parameters()}
    for name in group:
        if ".mixer." in name and name.split(".")[-1] in ("nu_log", "theta_log", "gamma_log", "b"):
            group[name] = 2
    assert list(rates_by_name(agent, 1e-3, 0.1)) == sorted(group, key=group.__getitem__)
