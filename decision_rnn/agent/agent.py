"""The agent: (what it is asked for, observation and, optionally, the previous action) -> action.

After Chen et al., "Decision Transformer" (2021), with any sequence backbone. It is trained on slices of many
episodes in parallel over time (`forward`) and acts one step at a time in constant memory (`act`). Its condition says
what it is asked for, its objective defines the loss and maps hidden states to actions.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Literal, NamedTuple

import gymnasium
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.agent.config import (
    CONDITIONS,
    OBJECTIVES,
    AgentConfig,
    ConditionConfig,
    MSEConfig,
    ObjectiveConfig,
    ReturnToGoConfig,
)
from decision_rnn.agent.objectives import Metrics
from decision_rnn.agent.spaces import Encoder, scale_of
from decision_rnn.agent.spec import AgentSpec, unit_box
from decision_rnn.backbones import Backbone, BackboneConfig, State, reset_rows, select_rows
from decision_rnn.data.hindsight import GoalEntries
from decision_rnn.data.layouts import Layout
from decision_rnn.data.stream import Batch
from decision_rnn.utils.errors import InputError

MAX_TIMESTEP = 1000


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
        """A state in the layout of this one, from the tensors that `flatten` returns."""
        conditions, memories = len(self.condition), len(self.memory)
        action, timestep, *others = tensors[conditions:]
        memory, plan = tuple(others[:memories]), tuple(others[memories:])
        return ActingState(tuple(tensors[:conditions]), action, timestep, memory, plan)

    def select(self, rows: Tensor) -> "ActingState":
        """The state of selected rows of the batch; `rows`: indices (n,) or a mask (batch,)."""
        return self.unflatten(select_rows(self.flatten(), rows))

    def replaced(self, initial: "ActingState", rows: Tensor) -> "ActingState":
        """The state with the rows where `rows`, (batch,) bool, is true taken from `initial`, which has the same batch
        size or one row."""
        return self.unflatten(reset_rows(self.flatten(), initial.flatten(), rows))


class TrainingOutput(NamedTuple):
    """What a module returns for a batch in training.

    Attributes:
        loss: A scalar with a gradient.
        metrics: Scalars by name, to be logged; a `loss` among them is logged in place of the sum of several.
        state: The recurrent state after the batch's slices.
    """

    loss: Tensor
    metrics: Metrics
    state: State


class ConditionedHead(nn.Module):
    """Modulates hidden states by what is asked for: h + mlp(norm(h) * (1 + scale) + shift), with scale and shift from
    the condition (adaptive layer norm; Peebles & Xie, "Scalable Diffusion Models with Transformers" (2023))."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(size, width)
        self.modulate = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, value: Tensor, hidden: Tensor) -> Tensor:
        with _float32(hidden):
            scale, shift = self.modulate(F.relu(self.embed(value))).chunk(2, dim=-1)
        return hidden + self.mlp(self.norm(hidden) * (1 + scale) + shift)


class DecisionAgent(nn.Module):
    """Predicts actions from what it is asked for, observations and, depending on `config`, previous actions.

    It takes the environment's whole observations as rows of numbers, and its actions are rows too, one-hot vectors for
    discrete ones: `observation_layout` and `action_layout` say how (`layouts.Layout`). The index of the entries that it
    sees, the normalisation statistics, the return scale and the cap of the return-to-go are buffers, stored with the
    weights. Embeddings and heads compute in float32, also under autocast: bfloat16 would round a return-to-go to steps
    of half a percent.

    Attributes:
        shown: (batch, size), the condition's values that the last actions were conditioned on.

    Args:
        config: How histories become tokens.
        backbone: The sequence backbone.
        spec: The spaces, and the statistics of the data.
        condition: What it is conditioned on; the return-to-go if left out.
        objective: The training objective; `MSE` if left out.

    Raises:
        InputError: If there is no layout or head for a space.
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
        condition, objective = condition or ReturnToGoConfig(), objective or MSEConfig()
        width = backbone.width
        self.config = config
        self.observation_space: gymnasium.Space = spec.observation_space
        self.action_space: gymnasium.Space = spec.action_space
        self.observation_layout = Layout.of_space(spec.observation_space, "observations")
        self.action_layout = Layout.of_space(spec.action_space, "actions")
        self.action_dim = self.action_layout.size
        self.action_scale = scale_of(spec.action_space)
        self.condition = CONDITIONS.registered(condition.name).cls(condition, replace(spec, width=width))
        self.late = config.condition_at == "head" and self.condition.size > 0
        self.encoder = Encoder(spec)
        self.goals: slice | None = None  # the entries that enter at the head
        if config.goals_at == "head":
            entries = GoalEntries.of_space(spec.observation_space, "the dataset", "agent.goals_at is head")
            self.goals = entries.asked
        goal_size = 0 if self.goals is None else self.goals.stop - self.goals.start
        late_size = self.condition.size * self.late + goal_size
        self.embed_condition = nn.Linear(self.condition.size, width) if self.condition.size and not self.late else None
        self.conditioned_head = ConditionedHead(late_size, width) if late_size else None
        self.embed_observation = nn.Linear(self.encoder.features - goal_size, width)
        self.embed_action = nn.Linear(self.action_dim, width) if config.previous_action else None
        self.embed_timestep = nn.Embedding(MAX_TIMESTEP, width) if config.timestep_embedding else None
        self.embedding_norm = nn.LayerNorm(width)
        self.backbone = Backbone(backbone)
        box = isinstance(spec.action_space, gymnasium.spaces.Box)
        scaled = replace(spec, width=width, action_space=unit_box(self.action_dim) if box else spec.action_space)
        self.objective = OBJECTIVES.registered(objective.name).cls(objective, scaled)
        self.joined_embedding: tuple[Tensor, Tensor] | None = None  # of an agent whose weights no longer change
        self.sampling = False  # whether actions are drawn with their probabilities
        self.shown: Tensor | None = None

    @property
    def _first_token(self) -> int:
        """Index, among a step's tokens, of an episode's first token: the previous action is of the episode before."""
        return int(self.config.tokens == "interleaved" and self.embed_action is not None)

    @property
    def observation_dim(self) -> int:
        """The smallest number of entries that a flat observation may have."""
        return self.observation_layout.size

    def forward(self, batch: Batch, state: State | None = None) -> TrainingOutput:
        """The objective's loss on a batch of slices, its metrics, and the backbone's state after the slices.

        Args:
            batch: Slices of the stream.
            state: The backbone's state before the slices; the initial state if left out.
        """
        asked, seen = self.condition.from_batch(batch), self.encoder(batch.observation)
        memory, state = self._remember(asked, seen, batch.previous_action, batch.timestep, batch.reset, state)
        hidden = self._ask(asked, seen, memory)
        with _float32(hidden):
            loss, metrics = self.objective.loss(hidden.float(), self.scaled(batch))
            own, others = self.condition.loss(memory[..., -1, :].float(), batch)
        return TrainingOutput(loss + own, {"loss": loss, **metrics, **others}, state)

    def scaled(self, batch: Batch) -> Batch:
        """The batch with actions as objectives read them."""
        return batch._replace(action=self.action_scale.normalise(batch.action))

    def predict(
        self,
        asked: Tensor,
        observation: Tensor,
        previous_action: Tensor,
        timestep: Tensor,
        reset: Tensor,
        state: State | None = None,
    ) -> tuple[Tensor, State]:
        """Predict every action of a slice in parallel, as the acting agent would, or as one that begins to act there if
        its objective has a state of its own.

        Args:
            asked: (batch, time, size), the condition's values, such as returns-to-go in the environment's units.
            observation: (batch, time, entries), whole observations.
            previous_action: (batch, time, action_dim), in the environment's units; zero at an episode's first step.
            timestep: (batch, time), int64.
            reset: (batch, time) bool, true where episodes begin.
            state: The backbone's state before the slice; the initial state if left out.

        Returns:
            Actions, (batch, time, action_dim), and the backbone's state after the slice.
        """
        if not self.late:
            asked = self.condition.limit(asked, timestep, None)
        seen = self.encoder(observation)
        hidden, state = self._remember(asked, seen, previous_action, timestep, reset, state)
        if self.late:
            asked = self.condition.limit(asked, timestep, hidden[..., -1, :])
        hidden = self._ask(asked, seen, hidden)
        self.shown = asked[:, -1]
        return self.action_scale(self._choose(hidden)), state

    def initial_state(self, target_return: Tensor) -> ActingState:
        """The state of `act` before an episode's first step, for the target return of each episode, (batch,)."""
        return self._begin(self.condition.initial_state(target_return), len(target_return))

    def act(
        self, observation: Tensor, reward: Tensor, reset: Tensor | None, state: ActingState
    ) -> tuple[Tensor, ActingState]:
        """Take one step in every environment of a batch.

        Args:
            observation: (batch, entries), whole observations.
            reward: (batch,), the reward of the previous action; ignored where an episode begins.
            reset: (batch,) bool, true where a new episode begins, with the same target; None for nowhere.
            state: From `initial_state` or the previous call.

        Returns:
            Actions, (batch, action_dim), and the state to pass to the next call.
        """
        if reset is not None:
            state = state.replaced(self._begin(self.condition.restart(state.condition), len(reward)), reset)
        action, state, self.shown = self.step(observation, reward, state)
        return action, state

    def step(self, observation: Tensor, reward: Tensor, state: ActingState) -> tuple[Tensor, ActingState, Tensor]:
        """As `act` without a reset; also returns the condition's values that the actions are conditioned on, (batch,
        size), and leaves the agent as it is."""
        first = state.timestep == 0
        asked, condition = self.condition.advance(state.condition, reward, first)
        if not self.late:
            asked = self.condition.limit(asked, state.timestep, None)
        seen = self.encoder(observation)
        tokens = self._embed(asked, seen, state.previous_action, state.timestep)
        memory, hidden = state.memory, []
        for i, token in enumerate(tokens):
            if 0 < i == self._first_token:  # at token 0, the memory of an episode's first step is already the initial
                memory = reset_rows(memory, self.backbone.initial_state(1), first)  # one row, broadcast: exportable
            output, memory = self.backbone.step(self.embedding_norm(token), memory)
            hidden.append(output)
        outputs = hidden[0].unsqueeze(-2) if len(hidden) == 1 else torch.stack(hidden, dim=-2)
        if self.late:
            asked = self.condition.limit(asked, state.timestep, outputs[..., -1, :])
        outputs = self._ask(asked, seen, outputs)
        if self.sampling:
            action, plan = self.objective.sample(outputs), state.plan
        else:
            action, plan = self.objective.act(outputs, state.timestep, state.plan)
        action = self.action_scale(action)
        return action, ActingState(condition, action, state.timestep + 1, memory, plan), asked

    def check_acting(self, actions: Literal["greedy", "sampled"], inference: Literal["recurrent", "window"]) -> None:
        """Raise InputError if actions are to be sampled and the objective gives them no probabilities, or if a window
        is to be re-run and the objective has a state of its own, which would be carried on."""
        if inference == "window" and self.objective.initial_state(1):
            raise InputError(
                f"evaluation.inference is window, but the objective {type(self.objective).__name__} carries a state of "
                "its own from step to step: leave it out"
            )
        if actions == "sampled" and not self.objective.samples:
            raise InputError(
                f"evaluation.actions is sampled, but the objective {type(self.objective).__name__} gives no "
                f"probabilities of actions in {self.action_space}: leave it out"
            )

    def _choose(self, hidden: Tensor) -> Tensor:
        return self.objective.sample(hidden) if self.sampling else self.objective.action(hidden)

    def _begin(self, condition: State, batch: int) -> ActingState:
        action = self.encoder.mean.new_zeros(batch, self.action_dim)
        timestep = torch.zeros(batch, dtype=torch.int64, device=action.device)
        memory, plan = self.backbone.initial_state(batch), self.objective.initial_state(batch)
        return ActingState(condition, action, timestep, memory, plan)

    def hidden(
        self,
        asked: Tensor,
        observation: Tensor,
        previous_action: Tensor,
        timestep: Tensor,
        reset: Tensor,
        state: State | None,
    ) -> tuple[Tensor, State]:
        """The hidden state after every token, (batch, time, tokens, width), as the objective reads it; arguments as for
        `predict`, but that nothing limits what is asked for."""
        seen = self.encoder(observation)
        hidden, state = self._remember(asked, seen, previous_action, timestep, reset, state)
        return self._ask(asked, seen, hidden), state

    def _ask(self, asked: Tensor, seen: Tensor, hidden: Tensor) -> Tensor:
        """The backbone's outputs (..., tokens, width) with what enters at the head: what is asked for (..., size), the
        goals in encoded observations (..., features), both or nothing."""
        if self.conditioned_head is None:
            return hidden
        parts = [self.condition.normalise(asked)] if self.late else []
        if self.goals is not None:
            parts.append(seen[..., self.goals])
        return self.conditioned_head(torch.cat(parts, dim=-1).unsqueeze(-2), hidden)

    def _remember(
        self,
        asked: Tensor,
        seen: Tensor,
        previous_action: Tensor,
        timestep: Tensor,
        reset: Tensor,
        state: State | None,
    ) -> tuple[Tensor, State]:
        """The backbone's output after every token, (batch, time, tokens, width); arguments as for `hidden`, but that
        observations are encoded."""
        tokens = self._embed(asked, seen, previous_action, timestep)
        if len(tokens) == 1:
            hidden, state = self.backbone(self.embedding_norm(tokens[0]), state, reset)
            return hidden.unsqueeze(2), state
        interleaved = self.embedding_norm(torch.stack(tokens, dim=2).flatten(1, 2))
        first = torch.arange(len(tokens), device=reset.device) == self._first_token
        hidden, state = self.backbone(interleaved, state, (reset.unsqueeze(2) & first).flatten(1))
        return hidden.unflatten(1, (-1, len(tokens))), state

    def join_embeddings(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the sum of a step's embeddings as one matrix product, in the order of `_embed`."""
        embeds = [x for x in (self.embed_action, self.embed_condition, self.embed_observation) if x is not None]
        return torch.cat([x.weight for x in embeds], dim=1), torch.stack([x.bias for x in embeds]).sum(0)

    def _embed(self, asked: Tensor, seen: Tensor, previous_action: Tensor, timestep: Tensor) -> list[Tensor]:
        """Each step's tokens, each (..., width): one, or one per input: previous action, condition, observation."""
        parts = [] if self.embed_action is None else [(self.embed_action, self.action_scale.normalise(previous_action))]
        if self.embed_condition is not None:
            parts.append((self.embed_condition, self.condition.normalise(asked)))
        if self.goals is not None:
            seen = torch.cat([seen[..., : self.goals.start], seen[..., self.goals.stop :]], dim=-1)
        parts.append((self.embed_observation, seen))
        with _float32(seen):
            if self.config.tokens == "step":
                weight, bias = self.joined_embedding or self.join_embeddings()
                tokens = [F.linear(torch.cat([value for _, value in parts], dim=-1), weight, bias)]
            else:
                tokens = [embed(value) for embed, value in parts]
            if self.embed_timestep is not None:
                when = self.embed_timestep(timestep.clamp_max(MAX_TIMESTEP - 1))
                tokens = [token + when for token in tokens]
        return tokens


def _float32(x: Tensor) -> AbstractContextManager[object]:
    """No autocast on the device of x; without autocast nothing, which is ten microseconds faster."""
    return torch.autocast(x.device.type, enabled=False) if torch.is_autocast_enabled(x.device.type) else nullcontext()
