"""DecisionAgent, a conditional policy: (condition, observation[, previous action]) -> action.

After Chen et al., "Decision Transformer" (2021), with any sequence backbone. It is trained on segments of many episodes
in parallel over time (`forward`) and acts one step at a time in constant memory (`act`).
"""

import copy
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Literal, NamedTuple

import gymnasium
import torch
import torch.nn.functional as F
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from decision_rnn.agent.conditions import CONDITIONS, Condition, ConditionConfig, ReturnToGoConfig
from decision_rnn.agent.objectives import OBJECTIVES, Metrics, MSEConfig, Objective, ObjectiveConfig
from decision_rnn.agent.spaces import AgentSpec, Encoder, action_scale, unit_box
from decision_rnn.backbones import Backbone, BackboneConfig, State, reset_rows, select_rows
from decision_rnn.data.layouts import Layout
from decision_rnn.data.stream import Batch
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import STRICT

MAX_TIMESTEP = 1000
"""The number of learnt embeddings of timesteps; later ones share the last."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class AgentConfig:
    """How the agent reads its history and its condition.

    Attributes:
        tokens: `step`: one token per environment step, the sum of the embeddings of all inputs; `interleaved`: one
            token per input, in the order previous action, condition, observation, as in the Decision Transformer.
        previous_action: Whether the agent reads its previous action, as the Decision Transformer does. Where
            observations contain the full state, it can mislead: consecutive actions are similar (Wen et al., "Fighting
            Copycat Agents in Behavioral Cloning from Observation Histories" (2020)).
        timestep_embedding: Add a learnt embedding of the timestep to the tokens, as the Decision Transformer does.
        conditioning: How the condition enters: as a `token` or a part of one, as in the Decision Transformer, or by
            adaptive layer norm after the backbone (`adaln`, as in DDT, arXiv 2601.15953), whose state then does not
            depend on it. Default: `adaln` for `time_to_goal`, which needs it, otherwise `token`.
    """

    tokens: Literal["step", "interleaved"] = "step"
    previous_action: bool = False
    timestep_embedding: bool = False
    conditioning: Literal["token", "adaln"] | None = None


class ActingState(NamedTuple):
    """The state of an agent between two calls of `act`; every tensor has the batch first.

    Attributes:
        condition: The condition's state, such as target return and return-to-go.
        previous_action: (batch, action_dim).
        timestep: (batch,) int64, steps since the episode's start.
        memory: The backbone's state or, for an agent that re-runs a window, the window.
        plan: The objective's state.
    """

    condition: State
    previous_action: Tensor
    timestep: Tensor
    memory: State
    plan: State = ()

    def flatten(self) -> State:
        """All tensors in one tuple."""
        return (*self.condition, self.previous_action, self.timestep, *self.memory, *self.plan)

    def unflatten(self, tensors: State) -> "ActingState":
        """A state of this one's structure, from the tensors that `flatten` returns."""
        start, end = len(self.condition), len(self.condition) + 2 + len(self.memory)
        action, timestep = tensors[start : start + 2]
        return ActingState(tensors[:start], action, timestep, tensors[start + 2 : end], tensors[end:])

    def select(self, rows: Tensor) -> "ActingState":
        """The state of some rows of the batch; `rows`: indices (n,) or a mask (batch,)."""
        return self.unflatten(select_rows(self.flatten(), rows))

    def reset(self, initial: "ActingState", rows: Tensor) -> "ActingState":
        """The state with the rows where `rows`, (batch,) bool, is true taken from `initial`, which has the same batch
        size or one row."""
        return self.unflatten(reset_rows(self.flatten(), initial.flatten(), rows))


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


class AdaptiveLayerNorm(nn.Module):
    """Modulates hidden states by the condition: h + mlp(norm(h) * (1 + scale) + shift), with scale and shift from the
    condition (Peebles & Xie, "Scalable Diffusion Models with Transformers" (2023))."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(size, width)
        self.modulate = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, value: Tensor, hidden: Tensor) -> Tensor:
        with float32(hidden):
            scale, shift = self.modulate(F.relu(self.embed(value))).chunk(2, dim=-1)
        return hidden + self.mlp(self.norm(hidden) * (1 + scale) + shift)


class DecisionAgent(nn.Module):
    """Conditional policy on a sequence backbone.

    It reads the environment's whole observations as rows of numbers, and its actions are rows too, one-hot vectors for
    discrete ones: `observation_layout` and `action_layout` say how (`layouts.Layout`). Observation statistics, the
    scale of the condition and its limit are buffers, stored with the weights. Embeddings and heads compute in float32,
    also under autocast: bfloat16 would round a return-to-go to steps of half a percent.

    Args:
        config: How histories become tokens.
        backbone: The sequence backbone.
        spec: The spaces, and the statistics of the data.
        condition: The condition; the return-to-go by default.
        objective: The training objective; `mse` by default.

    Raises:
        InputError: If a space is not supported, or `config.conditioning` does not suit the condition.
    """

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
        self.config = config
        self.observation_space: gymnasium.Space = spec.observation_space
        self.action_space: gymnasium.Space = spec.action_space
        self.observation_layout = Layout.of_space(spec.observation_space, "observations")
        self.action_layout = Layout.of_space(spec.action_space, "actions")
        self.observation_dim, self.action_dim = self.observation_layout.size, self.action_layout.size
        self.action_scale = action_scale(spec.action_space)
        self.encoder = Encoder(spec)
        self.condition: Condition = CONDITIONS.registered(condition.name).cls(condition, replace(spec, width=width))
        if self.condition.needs_adaln and config.conditioning == "token":
            raise InputError(f"condition {condition.name} needs agent.conditioning adaln. Leave it out.")
        adaln = self.condition.needs_adaln or config.conditioning == "adaln"
        self.embeddings = nn.ModuleDict()
        self.adaln: AdaptiveLayerNorm | None = None
        if self.condition.size and adaln:
            self.adaln = AdaptiveLayerNorm(self.condition.size, width)
        elif self.condition.size:
            self.embeddings["condition"] = nn.Linear(self.condition.size, width)
        self.embeddings["observation"] = nn.Linear(self.encoder.features, width)
        if config.previous_action:
            self.embeddings["previous_action"] = nn.Linear(self.action_dim, width)
        self.timestep_embedding = nn.Embedding(MAX_TIMESTEP, width) if config.timestep_embedding else None
        self.embedding_norm = nn.LayerNorm(width)
        self.backbone = Backbone(backbone)
        box = isinstance(spec.action_space, gymnasium.spaces.Box)
        scaled = replace(spec, width=width, action_space=unit_box(self.action_dim) if box else spec.action_space)
        self.objective: Objective = OBJECTIVES.registered(objective.name).cls(objective, scaled)

    def forward(self, batch: Batch, state: State | None = None) -> TrainingOutput:
        """The loss on a batch of segments, metrics, and the backbone's state after the segments.

        Args:
            batch: Segments of the stream.
            state: The backbone's state before the segments; the initial state if left out.
        """
        value, observation = self.condition.from_batch(batch), self.encoder(batch.observation)
        hidden, state = self._run_backbone(
            value, observation, batch.previous_action, batch.timestep, batch.reset, state
        )
        modulated = self._modulate(value, hidden)
        with float32(hidden):
            loss, metrics = self.objective.loss(modulated.float(), self.scale_actions(batch))
            condition_loss, condition_metrics = self.condition.loss(hidden.float(), batch)
        return TrainingOutput(loss + condition_loss, {"loss": loss, **metrics, **condition_metrics}, state)

    def scale_actions(self, batch: Batch) -> Batch:
        """The batch with actions as objectives read them."""
        return batch._replace(action=self.action_scale.normalise(batch.action))

    def predict(
        self,
        value: Tensor,
        observation: Tensor,
        previous_action: Tensor,
        timestep: Tensor,
        reset: Tensor,
        state: State | None = None,
        sample: bool = False,
    ) -> tuple[Tensor, State, Tensor]:
        """Predict every action of a segment in parallel, as the acting agent chooses them; an objective with a state of
        its own as in its first step.

        Args:
            value: (batch, time, size), the condition's values, such as returns-to-go in the environment's units.
            observation: (batch, time, entries), whole observations.
            previous_action: (batch, time, action_dim), in the environment's units; zero at an episode's first step.
            timestep: (batch, time) int64.
            reset: (batch, time) bool, true where episodes begin.
            state: The backbone's state before the segment; the initial state if left out.
            sample: Whether to sample actions by their probabilities.

        Returns:
            Actions, (batch, time, action_dim), the backbone's state after the segment, and the condition's values, with
            their limit.
        """
        if self.adaln is None:
            value = self.condition.limit(value, timestep, None)
        hidden, state = self._run_backbone(value, self.encoder(observation), previous_action, timestep, reset, state)
        if self.adaln is not None:
            value = self.condition.limit(value, timestep, hidden)
        hidden = self._modulate(value, hidden)
        action = self.objective.sample(hidden) if sample else self.objective.action(hidden)
        return self.action_scale(action), state, value

    def initial_state(self, target: Tensor) -> ActingState:
        """The state of `act` before an episode's first step, for the target of each episode, (batch,)."""
        action = self.encoder.mean.new_zeros(len(target), self.action_dim)
        timestep = torch.zeros(len(target), dtype=torch.int64, device=action.device)
        memory, plan = self.backbone.initial_state(len(target)), self.objective.initial_state(len(target))
        return ActingState(self.condition.initial_state(target), action, timestep, memory, plan)

    def act(
        self, observation: Tensor, reward: Tensor, state: ActingState, sample: bool = False
    ) -> tuple[Tensor, ActingState, Tensor]:
        """Take one step in every environment of a batch.

        Args:
            observation: (batch, entries), whole observations.
            reward: (batch,), the reward of the previous action; ignored at an episode's first step.
            state: From `initial_state` or the previous call.
            sample: Whether to sample actions by their probabilities.

        Returns:
            Actions, (batch, action_dim), the state to pass to the next call, and the condition's values, (batch, size).
        """
        first = state.timestep == 0
        value, condition = self.condition.step(state.condition, reward, first)
        if self.adaln is None:
            value = self.condition.limit(value, state.timestep, None)
        tokens = self._embed(value, self.encoder(observation), state.previous_action, state.timestep)
        memory = state.memory
        for i, token in enumerate(tokens):
            if 0 < i == self._first_token:  # before token 0, an episode's memory is the initial state already
                memory = reset_rows(memory, self.backbone.initial_state(1), first)  # one row, broadcast: exportable
            hidden, memory = self.backbone.step(token, memory)
        if self.adaln is not None:
            value = self.condition.limit(value, state.timestep, hidden)
        hidden, plan = self._modulate(value, hidden), state.plan
        if sample:
            action = self.objective.sample(hidden)
        else:
            action, plan = self.objective.step(hidden, state.timestep, plan)
        action = self.action_scale(action)
        return action, ActingState(condition, action, state.timestep + 1, memory, plan), value

    def check_acting(self, actions: Literal["greedy", "sampled"], inference: Literal["recurrent", "window"]) -> None:
        """Raise InputError if the objective cannot sample actions, or has a state that re-running a window would
        lose."""
        name = type(self.objective).__name__
        if inference == "window" and self.objective.initial_state(1):
            raise InputError(f"the objective {name} carries a state, so evaluation.inference cannot be window")
        if actions == "sampled" and not self.objective.samples:
            raise InputError(f"the objective {name} has no probabilities, so evaluation.actions cannot be sampled")

    @property
    def _first_token(self) -> int:
        """Index, among a step's tokens, of an episode's first one: the previous action is of the episode before."""
        return int(self.config.tokens == "interleaved" and self.config.previous_action)

    def _modulate(self, value: Tensor, hidden: Tensor) -> Tensor:
        """Hidden states, (..., width), modulated by the condition's values (..., size) if it enters there."""
        return hidden if self.adaln is None else self.adaln(self.condition.normalise(value), hidden)

    def _run_backbone(
        self,
        value: Tensor,
        observation: Tensor,
        previous_action: Tensor,
        timestep: Tensor,
        reset: Tensor,
        state: State | None,
    ) -> tuple[Tensor, State]:
        """The hidden state after every step's last token, (batch, time, width), and the backbone's state; arguments as
        for `predict`, with encoded observations."""
        tokens = self._embed(value, observation, previous_action, timestep)
        first = torch.arange(len(tokens), device=reset.device) == self._first_token
        reset = (reset.unsqueeze(2) & first).flatten(1)
        hidden, state = self.backbone(torch.stack(tokens, dim=2).flatten(1, 2), state, reset)
        return hidden[:, len(tokens) - 1 :: len(tokens)], state

    def _embed(self, value: Tensor, observation: Tensor, previous_action: Tensor, timestep: Tensor) -> list[Tensor]:
        """A step's tokens, each (..., width)."""
        tokens = []
        with float32(observation):
            if "previous_action" in self.embeddings:
                tokens.append(self.embeddings["previous_action"](self.action_scale.normalise(previous_action)))
            if "condition" in self.embeddings:
                tokens.append(self.embeddings["condition"](self.condition.normalise(value)))
            tokens.append(self.embeddings["observation"](observation))
            if self.config.tokens == "step":
                tokens = [sum(tokens[1:], tokens[0])]
            if self.timestep_embedding is not None:
                time = self.timestep_embedding(timestep.clamp_max(MAX_TIMESTEP - 1))
                tokens = [token + time for token in tokens]
        return [self.embedding_norm(token) for token in tokens]


def check_objective(agent: DecisionAgent, batch: Batch, name: str) -> None:
    """Check the rules of an objective on a batch, with a copy of the agent and without using up random numbers.

    Raises:
        InputError: Naming the rule, if the loss is not a finite scalar with a gradient, a metric is not a scalar, or
            the actions have another shape than the data's or leave [-1, 1].
    """
    agent = copy.deepcopy(agent)
    with torch.random.fork_rng():
        observation = agent.encoder(batch.observation)
        value, inputs = agent.condition.from_batch(batch), (batch.previous_action, batch.timestep, batch.reset)
        hidden = agent._modulate(value, agent._run_backbone(value, observation, *inputs, None)[0])
        loss, metrics = agent.objective.loss(hidden, agent.scale_actions(batch))
        with torch.inference_mode():
            actions = agent.eval().objective.action(hidden)
    fault = None
    if loss.dim() or not loss.requires_grad or not loss.isfinite():
        fault = f"its loss {tuple(loss.shape)} must be a finite scalar with a gradient, the mean over batch and time"
    elif scalars := [key for key, metric in metrics.items() if torch.as_tensor(metric).numel() != 1]:
        fault = f"its metric {scalars[0]} must be a scalar"
    elif actions.shape != batch.action.shape:
        fault = f"its actions have shape {tuple(actions.shape)} and must have {tuple(batch.action.shape)}"
    elif actions.abs().max() > 1 + 1e-5:
        fault = f"its actions reach {actions.abs().max():.3g} and must be within [-1, 1]"
    if fault:
        raise InputError(f"objective {name} breaks a rule: {fault}")


def float32(x: Tensor) -> AbstractContextManager[object]:
    """Disable autocast on the device of x, where it is enabled."""
    return torch.autocast(x.device.type, enabled=False) if torch.is_autocast_enabled(x.device.type) else nullcontext()
