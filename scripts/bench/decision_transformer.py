"""The published Decision Transformer in plain torch: the baseline of `bench train`, not a backbone to train with.

Chen et al., "Decision Transformer: Reinforcement Learning via Sequence Modeling" (2021), and its code,
github.com/kzl/decision-transformer (`gym/`): three tokens (return-to-go R, state s, action a) per step, each the sum of
its own embedding and a learnt embedding of the timestep; a LayerNorm; a pre-norm GPT-2 without position embeddings; the
state's token predicts the action, the action's token the next state and return. The loss is the mean squared error of
the actions. Dropout of 0.1 acts on the embeddings, on the attention weights and on both
residual branches, as published: it is part of the baseline's cost.
"""

import torch
from torch import Tensor, nn

from decision_rnn.agent import TrainingOutput
from decision_rnn.backbones import State
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import Batch

MASKED = -1e4  # GPT-2's "minus infinity"
EPISODE = 1000  # rows of the timestep embedding


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); one head, and an MLP that is four times as wide, with ReLU."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.output, self.dropout = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Dropout(dropout)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """x: (batch, tokens, width); hidden: (tokens, tokens) bool, what a token does not attend to."""
        # Attention is written out as published: matmul, where, softmax, dropout, matmul.
        q, k, v = self.qkv(self.attention_norm(x)).chunk(3, -1)
        scores = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        scores = torch.where(hidden, MASKED, scores)
        x = x + self.dropout(self.output(torch.matmul(self.dropout(torch.softmax(scores, dim=-1)), v)))
        return x + self.mlp(self.mlp_norm(x))


class DecisionTransformer(nn.Module):
    """The published model for D4RL's locomotion tasks; maps a batch of the stream to its loss, for `Trainer`.

    Batches are full segments without padding. Segments across the end of an episode would mislead an agent, but cost as
    much as any other segment. Padding is therefore left out of the loss and of the attention's mask.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, store: EpisodeStore, return_scale: float, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.return_scale = return_scale
        self.register_buffer("mean", torch.from_numpy(store.observation_mean).float())
        self.register_buffer("std", torch.from_numpy(store.observation_std).float() + 1e-6)
        self.embed_timestep = nn.Embedding(EPISODE, width)
        self.embed_return = nn.Linear(1, width)
        self.embed_observation = nn.Linear(store.observation_dim, width)
        self.embed_action = nn.Linear(store.action_dim, width)
        self.embedding_norm, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.embedding_dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(layers))
        self.predict_observation = nn.Linear(width, store.observation_dim)
        self.predict_action = nn.Sequential(nn.Linear(width, store.action_dim), nn.Tanh())
        self.predict_return = nn.Linear(width, 1)
        for module in self.blocks.modules():  # only in GPT-2; embeddings and heads keep torch's default
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, batch: Batch, state: State | None = None) -> TrainingOutput:
        """The loss; no state is carried between batches."""
        _, action, _ = self.predict(batch)
        return TrainingOutput(torch.mean((action - batch.action) ** 2), {}, ())

    def predict(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The next observations from each step's action, the actions from its observation, the next returns."""
        when = self.embed_timestep(batch.timestep)
        tokens = [
            self.embed_return(batch.return_to_go / self.return_scale) + when,
            self.embed_observation((batch.observation - self.mean) / self.std) + when,
            self.embed_action(batch.action) + when,
        ]
        x = self.embedding_dropout(self.embedding_norm(torch.stack(tokens, dim=2).flatten(1, 2)))
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        for block in self.blocks:
            x = block(x, hidden)
        _, observed, acted = self.norm(x).unflatten(1, (-1, 3)).unbind(2)
        return self.predict_observation(acted), self.predict_action(observed), self.predict_return(acted)
