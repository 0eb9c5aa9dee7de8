"""Chunks of actions that are executed open-loop."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.agent.objectives.base import Metrics, Objective, ObjectiveConfig, box_size, register_objective
from decision_rnn.agent.spaces import AgentSpec
from decision_rnn.backbones import State
from decision_rnn.data.stream import Batch
from decision_rnn.utils.distributed import training_mean
from decision_rnn.utils.parsing import PositiveInt, config_dataclass


@config_dataclass
class ActionChunkConfig(ObjectiveConfig):
    """Several actions at once, in a Box.

    Attributes:
        chunk_size: The number of actions that are predicted and executed together, at most `training.context`.
    """

    name: str = "action_chunk"
    chunk_size: PositiveInt = 5


@register_objective(ActionChunkConfig)
class ActionChunk(Objective):
    """Action chunking: predict the next k actions, tanh(W h + b), and execute them open-loop (Zhao et al., "Learning
    Fine-Grained Bimanual Manipulation with Low-Cost Hardware", 2023, without their temporal ensemble).

    The loss is the mean squared error over the predicted actions within the episode and the segment.

    Metrics: `squared_error`, of the first action of a chunk.
    """

    def __init__(self, config: ActionChunkConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.shape = config.chunk_size, box_size(spec, config.name)
        self.head = nn.Linear(spec.width, config.chunk_size * self.shape[1])

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        pad = self.shape[0] - 1
        targets = F.pad(batch.action, (0, 0, 0, pad)).unfold(1, pad + 1, 1).transpose(-1, -2)
        episode = batch.reset.cumsum(1)
        valid = F.pad(episode, (0, pad), value=-1).unfold(1, pad + 1, 1) == episode.unsqueeze(-1)
        errors = (self._chunk(hidden) - targets).square().mean(-1)
        return (errors * valid).sum() / training_mean(valid.sum()), {"squared_error": errors[..., 0].mean()}

    def action(self, hidden: Tensor) -> Tensor:
        return self._chunk(hidden)[..., 0, :]

    def initial_state(self, batch_size: int) -> State:
        return (self.head.weight.new_zeros(batch_size, *self.shape),)

    def step(self, hidden: Tensor, timestep: Tensor, state: State) -> tuple[Tensor, State]:
        (chunk,), index = state, timestep % self.shape[0]
        chunk = torch.where((index == 0)[:, None, None], self._chunk(hidden), chunk)
        # Comparing indices, unlike Tensor.gather, exports to ONNX for any batch size.
        selected = index.unsqueeze(-1) == torch.arange(self.shape[0], device=index.device)
        return (chunk * selected.unsqueeze(-1)).sum(1), (chunk,)

    def _chunk(self, hidden: Tensor) -> Tensor:
        """(..., chunk_size, action_dim)."""
        return torch.tanh(self.head(hidden)).unflatten(-1, self.shape)
