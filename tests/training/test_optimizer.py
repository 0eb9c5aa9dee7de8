"""The optimisers: what Muon trains, its update, and configurations that are replaced."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from decision_rnn.agent import DecisionAgent, agent_spec
from decision_rnn.backbones import registered_names
from decision_rnn.config import TrainingConfig, from_dict
from decision_rnn.training.optimizer import make_optimizers

NOT_MATRICES = {"Aaren.query", "CausalConvolution.weight", "Conv.weight", "H3.shift", "LSTM.peepholes", "RWKV.mix"}
"""Tables in two dimensions, of which a linear map has none."""


def make_agent(backbone: str) -> tuple[DecisionAgent, TrainingConfig]:
    keys = {"dataset": "hopper-medium", "backbone": backbone, "backbone.width": 8, "training.optimizer": "muon"}
    config = from_dict(keys, "the test")
    spec = agent_spec(torch.zeros(3), torch.ones(3), 2)
    condition = replace(config.condition_options, rtg_quantile=0.0)
    return DecisionAgent(config.agent, config.backbone, spec, condition, config.objective_options), config.training


@pytest.mark.parametrize("backbone", registered_names())
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
    settings = replace(settings, weight_decay=0.0, learning_rate=0.5, recurrent_rate=None)
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
