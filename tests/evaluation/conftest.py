"""What the tests of evaluations share."""

from collections.abc import Callable

import pytest
import torch

from decision_rnn.agent import DecisionAgent
from decision_rnn.checkpoint import Provenance, TrainedAgent
from decision_rnn.config_parser import from_dict
from decision_rnn.data.spec import DatasetSpec


@pytest.fixture
def pendulum() -> Callable[..., TrainedAgent]:
    """Makes an untrained agent of Pendulum-v1, as trained for ten steps on data with returns from -1500 to -100."""

    def make(
        backbone: str = "mingru",
        carry: int = 1,
        cloning: bool = False,
        return_min: float | None = -1500.0,
        return_max: float | None = -100.0,
        return_limit: float = 0.0,
    ) -> TrainedAgent:
        sections = {
            "backbone": {"name": backbone, "width": 16, "layers": 1},
            "agent": {"return_conditioning": not cloning, "return_limit": return_limit},
            "training": {"steps": 10, "carry": carry},
        }
        config = from_dict({"dataset": "own/pendulum", **sections}, "test")
        torch.manual_seed(0)
        agent = DecisionAgent(config.agent, config.backbone, torch.zeros(3), torch.ones(3), 1, 1000.0)
        spec = DatasetSpec("own/pendulum", "Pendulum-v1", -1600.0, -150.0, (-200.0, -400.0), 1000.0, "ours")
        provenance = Provenance(spec, "f" * 64, -900.0, 300.0, return_min, return_max, ("some note",))
        return TrainedAgent(agent.eval(), config, provenance, 10, 1.25)

    return make
