"""An objective that plans a few actions at once, and acts on them without looking."""

import torch
import torch.nn.functional as F
from torch import Tensor

from decision_rnn.agent.config import ActionChunkConfig, register_objective
from decision_rnn.agent.objectives import Metrics, Objective
from decision_rnn.agent.spaces import TanhHead, box_of
from decision_rnn.agent.spec import AgentSpec
from decision_rnn.backbones.contract import State
from decision_rnn.data.stream import Batch


@register_objective(ActionChunkConfig)
class ActionChunk(Objective):
    """Predicts the data's next `chunk` actions at every step, tanh(W h + b) in a Box, by their mean squared error; the
    agent takes all actions of a prediction before it makes the next one, as in Zhao et al., "Learning Fine-Grained
    Bimanual Manipulation with Low-Cost Hardware" (2023), without their averaging of predictions.

    Actions beyond the end of an episode or of a slice are left out of the mean. `squared_error`, which is logged, is
    that of the first action, to be compared with the loss of `mse`.
    """

    def __init__(self, config: ActionChunkConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.chunk, self.actions = config.chunk_size, box_of(spec, config.name).shape[0]
        self.head = TanhHead(spec.width, self.chunk * self.actions)

    def _plans(self, hidden: Tensor) -> Tensor:
        """(..., chunk, action_dim)."""
        return self.head(hidden[..., -1, :]).unflatten(-1, (self.chunk, self.actions))

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        following = F.pad(batch.action, (0, 0, 0, self.chunk - 1)).unfold(1, self.chunk, 1).transpose(-1, -2)
        episode = batch.reset.cumsum(1)
        known = F.pad(episode, (0, self.chunk - 1), value=-1).unfold(1, self.chunk, 1) == episode.unsqueeze(-1)
        errors = (self._plans(hidden) - following).square().mean(-1)
        return (errors * known).sum() / known.sum(), {"squared_error": errors[..., 0].mean()}

    def action(self, hidden: Tensor) -> Tensor:
        return self._plans(hidden)[..., 0, :]

    def initial_state(self, batch: int) -> State:
        return (self.head.weight.new_zeros(batch, self.chunk, self.actions),)

    def act(self, hidden: Tensor, timestep: Tensor, state: State) -> tuple[Tensor, State]:
        (plan,), turn = state, timestep % self.chunk
        plan = torch.where((turn == 0)[:, None, None], self._plans(hidden), plan)
        # Comparing indices, unlike Tensor.gather, exports to ONNX for any batch size.
        chosen = turn.unsqueeze(-1) == torch.arange(self.chunk, device=turn.device)
        return (plan * chosen.unsqueeze(-1)).sum(1), (plan,)
