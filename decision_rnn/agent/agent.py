"""The return-conditioned agent: (return-to-go, observation and, optionally, the previous action) -> action.

After Chen et al., "Decision Transformer" (2021), with any sequence backbone. It is trained on slices of many
episodes in parallel over time (`forward`) and acts one step at a time in constant memory (`act`). Its objective
defines the loss and maps hidden states to actions.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.agent.objectives import ObjectiveConfig, SquaredErrorConfig, registered_objective
from decision_rnn.backbones import Backbone, BackboneConfig, Resets, State, reset_rows
from decision_rnn.data.stream import Batch
from decision_rnn.errors import InputError

MAX_TIMESTEP = 1000
LEAST_STD = 1e-3
"""Smallest scale of an observation entry, so that entries constant in the data do not blow up small deviations."""


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """How the agent reads its history.

    Attributes:
        tokens: `step`: one token per environment step, the sum of the embeddings of all inputs; `interleaved`: one
            token per input, in the order previous action (if used), return-to-go, observation. With
            `previous_action` these are the Decision Transformer's three tokens.
        return_conditioning: Whether the agent sees the return-to-go; without it, training is behaviour cloning.
        previous_action: Whether the agent sees its previous action, as the Decision Transformer does. Where
            observations contain the full state, as in MuJoCo's locomotion tasks, it can mislead: consecutive actions
            are similar, but repeating the last one controls badly (Wen et al., "Fighting Copycat Agents in Behavioral
            Cloning from Observation Histories" (2020)).
        timestep_embedding: Add a learnt embedding of the step's number within the episode, as the Decision
            Transformer does.
        return_limit: Largest return-to-go that the agent sees when it acts, as a quantile, at each timestep, over the
            data's episodes that last that long. A higher target then acts like the return-to-go that a tenth of them
            exceed (at 0.9), which the network has seen often enough not to extrapolate. 1: the largest; 0: no limit.
        return_noise: Standard deviation of the noise added to a slice's returns-to-go in training, the same value at
            all of its steps, in units of the return scale.
    """

    tokens: Literal["step", "interleaved"] = "step"
    return_conditioning: bool = True
    previous_action: bool = False
    timestep_embedding: bool = False
    return_limit: float = 0.9
    return_noise: float = 0.0

    def __post_init__(self) -> None:
        if not self.return_noise >= 0:  # also rejects NaN
            raise InputError(f"agent.return_noise is {self.return_noise}: it must be at least 0")
        if not 0 <= self.return_limit <= 1:
            raise InputError(
                f"agent.return_limit is {self.return_limit}: it must be from 0, which is no limit, to 1, the largest"
            )


class DecisionAgent(nn.Module):
    """Predicts actions in [-1, 1] from observations and, depending on `config`, returns-to-go and previous actions.

    It takes full observations. The index of the entries that it sees, the normalisation statistics, the return scale
    and the limit of the return-to-go are buffers, stored with the weights.

    Args:
        config: How histories become tokens.
        backbone: The sequence backbone.
        observation_mean: (entries seen,), the mean of each observation entry that the agent sees.
        observation_std: (entries seen,), their standard deviations.
        action_dim: Number of action components.
        return_scale: The divisor of returns-to-go.
        objective: The training objective; the squared error of the actions if left out.
        observation_index: (entries seen,) int64, the indices of the entries that the agent sees; all if left out.
        return_limit: (timesteps,), the largest return-to-go that the agent sees at each timestep in evaluation mode,
            with the last value for all later timesteps; no limit if left out.

    Raises:
        InputError: If the objective reads a column that batches do not have.
    """

    observation_index: Tensor | None
    return_limit: Tensor | None
    observation_mean: Tensor
    observation_std: Tensor
    return_scale: Tensor

    def __init__(
        self,
        config: AgentConfig,
        backbone: BackboneConfig,
        observation_mean: Tensor,
        observation_std: Tensor,
        action_dim: int,
        return_scale: float,
        objective: ObjectiveConfig | None = None,
        observation_index: Tensor | None = None,
        return_limit: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.action_dim = action_dim
        width = backbone.width
        self.register_buffer("observation_index", observation_index)
        self.register_buffer("observation_mean", observation_mean.float())
        self.register_buffer("observation_std", observation_std.float().clamp_min(LEAST_STD))
        self.register_buffer("return_scale", torch.tensor(float(return_scale)))
        self.register_buffer("return_limit", None if return_limit is None else return_limit.float())
        self.embed_return = nn.Linear(1, width) if config.return_conditioning else None
        self.embed_observation = nn.Linear(len(observation_mean), width)
        self.embed_action = nn.Linear(action_dim, width) if config.previous_action else None
        self.embed_timestep = nn.Embedding(MAX_TIMESTEP, width) if config.timestep_embedding else None
        self.embedding_norm = nn.LayerNorm(width)
        self.backbone = Backbone(backbone)
        objective = objective or SquaredErrorConfig()
        self.objective = registered_objective(objective.name).cls(objective, width, action_dim)
        unknown = sorted(set(self.objective.columns) - set(Batch._fields))
        if unknown:
            raise InputError(
                f"the objective {objective.name} asks for the columns {', '.join(unknown)}, which batches lack: choose "
                f"from {', '.join(Batch._fields)}"
            )

    @property
    def _first_token(self) -> int:
        """Index, among a step's tokens, of an episode's first token: the previous action is of the episode before."""
        return int(self.config.tokens == "interleaved" and self.embed_action is not None)

    @property
    def observation_dim(self) -> int:
        """The smallest number of entries that an observation may have."""
        return len(self.observation_mean) if self.observation_index is None else int(self.observation_index.max()) + 1

    def forward(self, batch: Batch, state: State | None = None) -> tuple[Tensor, State]:
        """The objective's loss on a batch of slices, and the backbone's state after them.

        Args:
            batch: Slices of the stream.
            state: The backbone's state before the slices; the initial state if left out.
        """
        return_to_go = batch.return_to_go
        if self.training and self.config.return_noise:
            noise = torch.randn_like(return_to_go[:, :1]) * self.return_scale
            return_to_go = return_to_go + self.config.return_noise * noise
        hidden, state = self._hidden(
            return_to_go, batch.observation, batch.previous_action, batch.timestep, batch.reset.mask, state
        )
        columns = {name: getattr(batch, name) for name in self.objective.columns}
        return self.objective.loss(hidden, columns), state

    def predict(
        self,
        return_to_go: Tensor,
        observation: Tensor,
        previous_action: Tensor,
        timestep: Tensor,
        reset: Tensor,
        state: State | None = None,
    ) -> tuple[Tensor, State]:
        """Predict every action of a slice in parallel.

        Args:
            return_to_go: (batch, time, 1), in the environment's units.
            observation: (batch, time, entries), full observations.
            previous_action: (batch, time, action_dim); zero at an episode's first step.
            timestep: (batch, time), int64.
            reset: (batch, time), bool: true at an episode's first step.
            state: The backbone's state before the slice; the initial state if left out.

        Returns:
            Actions, (batch, time, action_dim), and the backbone's state after the slice.
        """
        hidden, state = self._hidden(return_to_go, observation, previous_action, timestep, reset, state)
        return self.objective.action(hidden), state

    def initial_state(self, target_return: Tensor) -> State:
        """The state of `act` before an episode's first step.

        Args:
            target_return: (batch,), the target return of each episode.

        Returns:
            Target, return-to-go (both (batch,)), previous action, (batch, action_dim), timestep, (batch,), and
            the backbone's state.
        """
        target = target_return.to(self.return_scale)
        action = target.new_zeros(len(target), self.action_dim)
        timestep = torch.zeros(len(target), dtype=torch.int64, device=target.device)
        return target, target, action, timestep, *self.backbone.initial_state(len(target))

    def act(self, observation: Tensor, reward: Tensor, reset: Tensor | None, state: State) -> tuple[Tensor, State]:
        """Take one step in every environment of a batch.

        Args:
            observation: (batch, entries), full observations.
            reward: (batch,), the reward of the previous action; ignored where an episode begins.
            reset: (batch,) bool, true where a new episode begins, with the same target; None for nowhere.
            state: From `initial_state` or the previous call.

        Returns:
            Actions, (batch, action_dim), and the state to pass to the next call.
        """
        if reset is not None:
            state = reset_rows(state, self.initial_state(state[0]), reset)
        (target, return_to_go, previous_action, timestep), memory = state[:4], state[4:]
        first = timestep == 0
        return_to_go = torch.where(first, target, return_to_go - reward)
        tokens = self._embed(return_to_go.unsqueeze(-1), observation, previous_action, timestep)
        hidden = tokens[0]
        for i, token in enumerate(tokens):
            if 0 < i == self._first_token:  # at token 0, the memory of an episode's first step is already the initial
                memory = reset_rows(memory, self.backbone.initial_state(1), first)  # one row, broadcast: exportable
            hidden, memory = self.backbone.step(self.embedding_norm(token), memory)
        action = self.objective.action(hidden)
        return action, (target, return_to_go, action, timestep + 1, *memory)

    def _hidden(
        self,
        return_to_go: Tensor,
        observation: Tensor,
        previous_action: Tensor,
        timestep: Tensor,
        reset: Tensor,
        state: State | None,
    ) -> tuple[Tensor, State]:
        """The hidden state after each step's last token, (batch, time, width); arguments as for `predict`."""
        tokens = self._embed(return_to_go, observation, previous_action, timestep)
        if len(tokens) == 1:
            return self.backbone(self.embedding_norm(tokens[0]), state, reset)
        resets = Resets.from_mask(reset).interleave(len(tokens), self._first_token)
        interleaved = self.embedding_norm(torch.stack(tokens, dim=2).flatten(1, 2))
        hidden, state = self.backbone(interleaved, state, resets)
        return hidden[:, len(tokens) - 1 :: len(tokens)], state

    def _embed(
        self, return_to_go: Tensor, observation: Tensor, previous_action: Tensor, timestep: Tensor
    ) -> list[Tensor]:
        """Each step's tokens, each (..., width): one, or one per input: previous action, return-to-go, observation."""
        if self.observation_index is not None:
            observation = observation.index_select(-1, self.observation_index)
        parts = [] if self.embed_action is None else [(self.embed_action, previous_action)]
        if self.embed_return is not None:
            if self.return_limit is not None and not self.training:
                limit = self.return_limit[timestep.clamp_max(len(self.return_limit) - 1)]
                return_to_go = torch.minimum(return_to_go, limit.unsqueeze(-1))
            parts.append((self.embed_return, return_to_go / self.return_scale))
        parts.append((self.embed_observation, (observation - self.observation_mean) / self.observation_std))
        if self.config.tokens == "step":
            # The sum of the embeddings, as one matrix product.
            weight = torch.cat([embed.weight for embed, _ in parts], dim=1)
            bias = torch.stack([embed.bias for embed, _ in parts]).sum(0)
            tokens = [F.linear(torch.cat([value for _, value in parts], dim=-1), weight, bias)]
        else:
            tokens = [embed(value) for embed, value in parts]
        if self.embed_timestep is not None:
            when = self.embed_timestep(timestep.clamp_max(MAX_TIMESTEP - 1))
            tokens = [token + when for token in tokens]
        return tokens
