"""The network of an agent: from observations and conditions to the loss on a batch of segments."""

from dataclasses import replace
from typing import Literal, NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from decision_rnn.agent.adaln import AdaptiveLayerNorm
from decision_rnn.agent.conditions.base import CONDITIONS, Condition, ConditionConfig
from decision_rnn.agent.conditions.return_to_go import ReturnToGoConfig
from decision_rnn.agent.objectives.base import OBJECTIVES, Metrics, Objective, ObjectiveConfig
from decision_rnn.agent.objectives.mse import MSEConfig
from decision_rnn.agent.spaces import AgentSpec, unit_box
from decision_rnn.backbones import Backbone, BackboneConfig, State
from decision_rnn.data.stream import Batch
from decision_rnn.environments.layouts import Layout
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.parsing import config_dataclass

MAX_TIMESTEP = 1000
"""The number of learnt embeddings of timesteps; later ones share the last."""
RESOLUTION = 8 * torch.finfo(torch.float32).eps
"""An observation entry whose standard deviation is at most this share of its mean is constant up to rounding."""


@config_dataclass
class AgentConfig:
    """How the agent reads its history and its condition.

    Attributes:
        tokens: `step`: one token per environment step, the sum of the embeddings of all inputs; `interleaved`: one
            token per input, in the order previous action, condition, observation, as in the Decision Transformer.
        previous_action: Whether the agent reads its previous action, as the Decision Transformer does. Where
            observations contain the full state, it can mislead: consecutive actions are similar (Wen et al., "Fighting
            Copycat Agents in Behavioral Cloning from Observation Histories" (2020)).
        delta_actions: Whether the agent learns changes to its previous action, which are added to it when it acts, for
            logs in which consecutive actions are nearly equal. At an episode's first step it learns the action itself.
            Its own errors add up, so that it should see where the robot is.
        timestep_embedding: Add a learnt embedding of the timestep to the tokens, as the Decision Transformer does.
        conditioning: How the condition enters: as a `token` or a part of one, as in the Decision Transformer, or by
            adaptive layer norm after the backbone (`adaln`, as in DDT, arXiv 2601.15953), whose state then does not
            depend on it. Default: `adaln` for `time_to_goal` and `subgoal`, which need it, otherwise `token`.
    """

    tokens: Literal["step", "interleaved"] = "step"
    previous_action: bool = False
    delta_actions: bool = False
    timestep_embedding: bool = False
    conditioning: Literal["token", "adaln"] | None = None

    def uses_adaln(self, condition: ConditionConfig) -> bool:
        """Whether the condition enters by adaptive layer norm."""
        return condition.needs_adaln or self.conditioning == "adaln"


class TrainingOutput(NamedTuple):
    """What a module returns for a batch in training.

    Attributes:
        loss: A scalar with a gradient.
        metrics: Scalars by name, to be logged; a `loss` among them is logged in place of the sum of several.
        state: The recurrent state after the batch's segments.
    """

    loss: Tensor
    metrics: Metrics
    state: State


class Encoder(nn.Module):
    """Selects and normalises the observation entries that the agent reads: (..., entries) -> (..., features).

    Entries are divided by their standard deviation in the data. Constant entries are divided by their absolute value,
    or by 1 if they are 0, so that small deviations are not magnified. Features do not depend on the units of entries.
    """

    index: Tensor | None
    mean: Tensor
    std: Tensor

    def __init__(self, spec: AgentSpec) -> None:
        super().__init__()
        self.features = len(spec.observation_mean)
        self.register_buffer("index", spec.observation_index)
        mean, std = spec.observation_mean.float(), spec.observation_std.float()
        size = mean.abs()
        self.register_buffer("mean", mean)
        self.register_buffer("std", torch.where(std > RESOLUTION * size, std, torch.where(size > 0, size, 1.0)))

    def moments(self, size: int) -> np.ndarray:
        """(2, size), means and divisors of the entries of a whole observation; NaN for those that are not read."""
        moments, entries = np.full((2, size), np.nan), slice(None) if self.index is None else self.index.cpu().numpy()
        moments[:, entries] = self.mean.cpu().numpy(), self.std.cpu().numpy()
        return moments

    def forward(self, observation: Tensor) -> Tensor:
        if self.index is not None:
            observation = observation.index_select(-1, self.index)
        return (observation - self.mean) / self.std


class ActionScale(nn.Module):
    """Maps actions from [-1, 1] to a bounded Box, clipped to it, and back; one-hot vectors of discrete actions stay.

    An entry whose bounds are equal is constant in the Box and 0 in [-1, 1].

    Raises:
        InputError: If agents cannot act in the space, or a bound is not finite.
    """

    low: Tensor
    high: Tensor
    center: Tensor
    radius: Tensor

    def __init__(self, space: gymnasium.Space) -> None:
        super().__init__()
        size = Layout.of_space(space, "actions", acted=True).size
        box = space if isinstance(space, gymnasium.spaces.Box) else unit_box(size)  # which has all one-hot vectors
        low, high = (torch.from_numpy(bound.astype("float32").ravel()) for bound in (box.low, box.high))
        if not (high - low).isfinite().all():
            raise InputError(f"the actions are {one_line(space)}, but agents need finite bounds")
        self.is_unit = bool((low == -1).all() and (high == 1).all())
        # Not stored with the weights: the description of a checkpoint has the space.
        self.register_buffer("low", low, persistent=False)
        self.register_buffer("high", high, persistent=False)
        self.register_buffer("center", low / 2 + high / 2, persistent=False)
        self.register_buffer("radius", torch.where(low < high, high / 2 - low / 2, 1.0), persistent=False)

    def forward(self, action: Tensor) -> Tensor:
        if self.is_unit:  # one node of an exported policy in place of four
            return action.clamp(-1, 1)
        return (action * self.radius + self.center).clamp(self.low, self.high)

    def normalise(self, action: Tensor) -> Tensor:
        """From the Box to [-1, 1], clipped to it, as environments clip."""
        return ((action - self.center) / self.radius).clamp(-1, 1)


class PolicyNetwork(nn.Module):
    """Encoder, embeddings, sequence backbone and output head of a `DecisionAgent`, whose arguments and errors it has.

    In training, embeddings and heads compute in float32 also under autocast: bfloat16 would round a return-to-go to
    steps of half a percent.
    """

    action_changes: Tensor

    def __init__(
        self,
        config: AgentConfig,
        backbone: BackboneConfig,
        spec: AgentSpec,
        condition: ConditionConfig | None = None,
        objective: ObjectiveConfig | None = None,
    ) -> None:
        super().__init__()
        condition, objective, width = condition or ReturnToGoConfig(), objective or MSEConfig(), backbone.width
        self.config, self.condition_config = config, condition
        self.observation_space: gymnasium.Space = spec.observation_space
        self.action_space: gymnasium.Space = spec.action_space
        self.observation_layout = Layout.of_space(spec.observation_space, "observations")
        self.action_layout = Layout.of_space(spec.action_space, "actions")
        self.observation_dim, self.action_dim = self.observation_layout.size, self.action_layout.size
        self.action_scale = ActionScale(spec.action_space)
        changes = torch.zeros(2, self.action_dim) if spec.action_changes is None else spec.action_changes
        self.register_buffer("action_changes", changes.float() if config.delta_actions else None)
        is_box = isinstance(spec.action_space, gymnasium.spaces.Box)
        if config.delta_actions and not is_box:
            raise InputError(f"agent.delta_actions needs actions in a Box, not {one_line(spec.action_space)}.")
        self.encoder = Encoder(spec)
        self.condition: Condition = CONDITIONS.registered(condition.name).cls(condition, replace(spec, width=width))
        self.embeddings = nn.ModuleDict()
        self.adaln: AdaptiveLayerNorm | None = None
        if self.condition.size and config.uses_adaln(condition):
            options = condition.dropout > 0, condition.adaln_layers
            self.adaln = AdaptiveLayerNorm(self.condition.size, width, *options)
        elif self.condition.size:
            self.embeddings["condition"] = nn.Linear(self.condition.size, width)
        self.embeddings["observation"] = nn.Linear(self.encoder.features, width)
        if config.previous_action:
            self.embeddings["previous_action"] = nn.Linear(self.action_dim, width)
        self.timestep_embedding = nn.Embedding(MAX_TIMESTEP, width) if config.timestep_embedding else None
        self.embedding_norm = nn.LayerNorm(width)
        self.backbone = Backbone(backbone)
        scaled = replace(spec, width=width, action_space=unit_box(self.action_dim) if is_box else spec.action_space)
        self.objective: Objective = OBJECTIVES.registered(objective.name).cls(objective, scaled)
        # Index of the token before which an episode's reset applies: the previous action is of the episode before.
        self.reset_token = int(config.tokens == "interleaved" and config.previous_action)

    def forward(self, batch: Batch, state: State | None = None) -> TrainingOutput:
        """The loss on a batch of segments, metrics, and the backbone's state after the segments.

        Args:
            batch: Segments of the stream.
            state: The backbone's state before the segments; the initial state if left out.
        """
        float32 = torch.autocast(batch.observation.device.type, enabled=False)
        value = self.condition.from_batch(batch)
        with float32:
            tokens = self.embed(value, batch.observation, batch.previous_action, batch.timestep)
        hidden, state = self.run_backbone(tokens, batch.reset, state)
        batch = self.with_targets(batch)
        dropped, dropout = None, self.condition_config.dropout
        if self.training and dropout:
            dropped = torch.rand(len(hidden), 1, 1, device=hidden.device) < dropout
        modulated = self.modulate(value, hidden, dropped)
        with float32:
            loss, metrics = self.objective.loss(modulated.float(), batch)
        metrics, total = {"loss": loss, **metrics}, loss
        if self.condition_config.needs_adaln:  # other conditions have no loss
            condition_loss, condition_metrics = self.condition.loss(hidden, batch)
            metrics, total = {**metrics, **condition_metrics}, loss + condition_loss
        return TrainingOutput(total, metrics, state)

    def with_targets(self, batch: Batch) -> Batch:
        """The batch with actions as the objective predicts them: in a Box scaled to [-1, 1], or changes so scaled."""
        if self.action_changes is None:
            return batch._replace(action=self.action_scale.normalise(batch.action))
        center, radius = self._change_range(batch.previous_action, batch.timestep)
        return batch._replace(action=((batch.action - center) / radius).clamp(-1, 1))

    def to_environment_actions(self, predicted: Tensor, previous_action: Tensor, timestep: Tensor) -> Tensor:
        """Actions of the environment from what the objective predicts, all (..., action_dim), at timesteps (...)."""
        if self.action_changes is None:
            return self.action_scale(predicted)
        center, radius = self._change_range(previous_action, timestep)
        return (center + radius * predicted).clamp(self.action_scale.low, self.action_scale.high)

    def _change_range(self, previous_action: Tensor, timestep: Tensor) -> tuple[Tensor, Tensor]:
        """The middle of the actions within reach of the previous one, at first of all, and the largest change from
        there."""
        (low, high), first = self.action_changes.unbind(), timestep.unsqueeze(-1) == 0
        center = torch.where(first, self.action_scale.center, previous_action + (low + high) / 2)
        radius = torch.where(low < high, (high - low) / 2, 1.0)
        return center, torch.where(first, self.action_scale.radius, radius)

    def run_backbone(self, tokens: list[Tensor], reset: Tensor, state: State | None) -> tuple[Tensor, State]:
        """The hidden state after every step's last token, (batch, time, width), and the backbone's state after them."""
        if len(tokens) == 1:
            return self.backbone(tokens[0], state, reset)
        first = torch.arange(len(tokens), device=reset.device) == self.reset_token
        reset = (reset.unsqueeze(2) & first).flatten(1)
        hidden, state = self.backbone(torch.stack(tokens, dim=2).flatten(1, 2), state, reset)
        return hidden[:, len(tokens) - 1 :: len(tokens)], state

    def embed(self, value: Tensor, observation: Tensor, previous_action: Tensor, timestep: Tensor) -> list[Tensor]:
        """A step's tokens, each (..., width)."""
        tokens = []
        if "previous_action" in self.embeddings:
            tokens.append(self.embeddings["previous_action"](self.action_scale.normalise(previous_action)))
        if "condition" in self.embeddings:
            tokens.append(self.embeddings["condition"](self.condition.normalise(value)))
        tokens.append(self.embeddings["observation"](self.encoder(observation)))
        if self.config.tokens == "step":
            tokens = [sum(tokens[1:], tokens[0])]
        if self.timestep_embedding is not None:
            time = self.timestep_embedding(timestep.clamp_max(MAX_TIMESTEP - 1))
            tokens = [token + time for token in tokens]
        return list(map(self.embedding_norm, tokens))

    def modulate(self, value: Tensor | None, hidden: Tensor, dropped: Tensor | None = None) -> Tensor:
        """Hidden states, (..., width), modulated by the condition's values (..., size) if it enters there; as without a
        condition if they are None, or where `dropped` is true."""
        if self.adaln is None:
            return hidden
        return self.adaln(None if value is None else self.condition.normalise(value), hidden, dropped)
