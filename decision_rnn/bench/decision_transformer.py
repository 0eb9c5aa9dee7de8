"""The published Decision Transformer, re-implemented in plain torch: the baseline of the speed comparisons.

Chen et al., "Decision Transformer: Reinforcement Learning via Sequence Modeling" (2021), and its code,
github.com/kzl/decision-transformer (`gym/`): three tokens (return-to-go R, state s, action a) per step, each the sum of
its own embedding and a learnt embedding of the timestep; a LayerNorm; a pre-norm GPT-2 without position embeddings; the
state's token predicts the action, the action's token the next state and return. The loss is the mean squared error of
the actions of steps that are not padding. Dropout of 0.1 acts on the embeddings, on the attention weights and on both
residual branches, as published: it is part of the baseline's cost.

This is our re-implementation to measure against, not a backbone to train with. It leaves out the pretrained-model
library around GPT-2 (its output classes, Conv1D, head pruning, key and value cache, and the unused word embedding),
which makes it faster rather than slower, if it makes a difference.
"""

import torch
from torch import Tensor, nn

MASKED = -1e4  # GPT-2's "minus infinity"
POSITIONS = 1024  # the longest sequence of tokens


class Attention(nn.Module):
    """GPT-2's causal self-attention, written out as published: matmul, where, softmax, dropout, matmul."""

    causal: Tensor

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.attention_dropout = nn.Dropout(dropout)
        self.residual_dropout = nn.Dropout(dropout)
        causal = torch.ones(POSITIONS, POSITIONS, dtype=torch.bool).tril()
        self.register_buffer("causal", causal, persistent=False)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        """x: (batch, tokens, width); padding: (batch, 1, 1, tokens), added to the scores."""
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        causal = self.causal[: x.shape[1], : x.shape[1]]
        scores = torch.where(causal, scores, torch.tensor(MASKED, dtype=scores.dtype, device=x.device)) + padding
        weights = self.attention_dropout(torch.softmax(scores, dim=-1))
        mixed = torch.matmul(weights, v).transpose(1, 2).flatten(2)
        return self.residual_dropout(self.output(mixed))


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); the MLP is four times as wide, with ReLU."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), padding)
        return x + self.mlp(self.mlp_norm(x))


class DecisionTransformer(nn.Module):
    """The published model for D4RL's locomotion tasks, with its published sizes as defaults.

    Args:
        observation_dim: Entries of an observation.
        action_dim: Components of an action.
        width: Width of the residual stream.
        layers: Number of blocks of attention and MLP.
        heads: Number of attention heads.
        dropout: Dropout of embeddings, attention weights and residual branches.
        max_timestep: Number of rows of the timestep embedding.
    """

    def __init__(
        self,
        observation_dim: int,
        action_dim: int,
        width: int = 128,
        layers: int = 3,
        heads: int = 1,
        dropout: float = 0.1,
        max_timestep: int = 1000,
    ) -> None:
        super().__init__()
        self.embed_timestep = nn.Embedding(max_timestep, width)
        self.embed_return = nn.Linear(1, width)
        self.embed_observation = nn.Linear(observation_dim, width)
        self.embed_action = nn.Linear(action_dim, width)
        self.embedding_norm = nn.LayerNorm(width)
        self.embedding_dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.predict_observation = nn.Linear(width, observation_dim)
        self.predict_action = nn.Sequential(nn.Linear(width, action_dim), nn.Tanh())
        self.predict_return = nn.Linear(width, 1)
        for module in self.blocks.modules():  # only in GPT-2; embeddings and heads keep torch's default
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(
        self, observation: Tensor, action: Tensor, return_to_go: Tensor, timestep: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Predict what follows the state and action tokens.

        Args:
            observation: (batch, time, observation_dim), normalised.
            action: (batch, time, action_dim).
            return_to_go: (batch, time, 1), scaled.
            timestep: (batch, time), int64.
            mask: (batch, time), 1 where there is a step and 0 where there is padding.

        Returns:
            The next observations, (batch, time, observation_dim), from each step's action; the actions, (batch, time,
            action_dim), from its observation; the next returns, (batch, time, 1), from its action.
        """
        when = self.embed_timestep(timestep)
        tokens = [
            self.embed_return(return_to_go) + when,
            self.embed_observation(observation) + when,
            self.embed_action(action) + when,
        ]
        x = self.embedding_dropout(self.embedding_norm(torch.stack(tokens, dim=2).flatten(1, 2)))
        padding = (1 - mask.to(x.dtype).repeat_interleave(3, dim=1)[:, None, None]) * MASKED
        for block in self.blocks:
            x = block(x, padding)
        _, at_observation, at_action = self.norm(x).unflatten(1, (-1, 3)).unbind(2)
        return (
            self.predict_observation(at_action),
            self.predict_action(at_observation),
            self.predict_return(at_action),
        )

    def loss(self, observation: Tensor, action: Tensor, return_to_go: Tensor, timestep: Tensor, mask: Tensor) -> Tensor:
        """Mean squared error of the actions of steps that are not padding; arguments as for `forward`."""
        _, predicted, _ = self(observation, action, return_to_go, timestep, mask)
        valid = mask.flatten() > 0
        return torch.mean((predicted.flatten(0, 1)[valid] - action.flatten(0, 1)[valid]) ** 2)
