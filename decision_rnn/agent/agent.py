"""DecisionAgent, a conditional policy: (condition, observation[, previous action]) -> action.

After Chen et al., "Decision Transformer" (2021), with any sequence backbone. It is trained on segments of many episodes
in parallel over time (`forward`, network.py) and acts one step at a time in constant memory (`act`).
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from decision_rnn.agent.network import PolicyNetwork
from decision_rnn.agent.objectives.base import Objective
from decision_rnn.backbones import State, reset_rows, select_rows
from decision_rnn.data.stream import Batch
from decision_rnn.utils.errors import InputError

Run = Callable[[list[Tensor]], tuple[Tensor, State]]
"""From a step's tokens to the backbone's output and state."""


class ActingState(NamedTuple):
    """The state of an agent between two calls of `act`; every tensor has the batch first.

    Attributes:
        condition: The condition's state, such as the return-to-go.
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


class DecisionAgent(PolicyNetwork):
    """Conditional policy on a sequence backbone.

    It reads the environment's whole observations as rows of numbers, and its actions are rows too, one-hot vectors for
    discrete ones: `observation_layout` and `action_layout` say how (`layouts.Layout`). Observation statistics, the
    scale of the condition and its limit are buffers, stored with the weights.

    Args:
        config: How histories become tokens.
        backbone: The sequence backbone.
        spec: The spaces, and the statistics of the data.
        condition: The condition; the return-to-go by default.
        objective: The training objective; `mse` by default.

    Raises:
        InputError: If a space is not supported.
    """

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
        run = partial(self.run_backbone, reset=reset, state=state)
        value, hidden, state = self.hidden_states(run, value, observation, previous_action, timestep)
        action = self.select_actions(value, hidden, sample)
        return self.to_environment_actions(action, previous_action, timestep), state, value

    def initial_state(self, target: Tensor) -> ActingState:
        """The state of `act` before an episode's first step, for the target of each episode, (batch,)."""
        action = self.encoder.mean.new_zeros(len(target), self.action_dim)
        timestep = torch.zeros(len(target), dtype=torch.int64, device=action.device)
        memory, plan = self.backbone.initial_state(len(target)), self.objective.initial_state(len(target))
        return ActingState(self.condition.initial_state(target.to(action)), action, timestep, memory, plan)

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
        run, plan = partial(self.step_backbone, first=first, state=state.memory), state.plan
        value, hidden, memory = self.hidden_states(run, value, observation, state.previous_action, state.timestep)
        if sample or self.condition_config.guidance != 1:
            action = self.select_actions(value, hidden, sample)
        else:
            action, plan = self.objective.step(self.modulate(value, hidden), state.timestep, plan)
        action = self.to_environment_actions(action, state.previous_action, state.timestep)
        return action, ActingState(condition, action, state.timestep + 1, memory, plan), value

    def hidden_states(
        self, run: Run, value: Tensor, observation: Tensor, previous_action: Tensor, timestep: Tensor
    ) -> tuple[Tensor, Tensor, State]:
        """The condition's values with their limit, and the backbone's hidden states and state."""
        if self.adaln is None:
            value = self.condition.limit(value, timestep, None, observation)
        hidden, state = run(self.embed(value, observation, previous_action, timestep))
        if self.adaln is not None:
            value = self.condition.limit(value, timestep, hidden, observation)
        return value, hidden, state

    def select_actions(self, value: Tensor, hidden: Tensor, sample: bool = False) -> Tensor:
        """The objective's actions, (..., action_dim), for the condition's values (..., size) at the backbone's hidden
        states (..., width), with guidance."""
        conditional, weight = self.modulate(value, hidden), self.condition_config.guidance
        if weight != 1:
            return self.objective.guided(conditional, self.modulate(None, hidden), weight, sample)
        return self.objective.sample(conditional) if sample else self.objective.action(conditional)

    def step_backbone(self, tokens: list[Tensor], first: Tensor, state: State) -> tuple[Tensor, State]:
        """`run_backbone` for one step: the hidden state after the last token, (batch, width), and the state."""
        for i, token in enumerate(tokens):
            if 0 < i == self.reset_token:  # before token 0, an episode's state is the initial one already
                state = reset_rows(state, self.backbone.initial_state(1), first)  # one row, broadcast: exportable
            hidden, state = self.backbone.step(token, state)
        return hidden, state

    def check_acting(self, actions: Literal["greedy", "sampled"], inference: Literal["recurrent", "window"]) -> None:
        """InputError if the objective cannot sample or guide actions, or carries a state, which re-running a window
        loses."""
        defined, objective = type(self.objective), f"the objective {type(self.objective).__name__}"
        if actions == "sampled" and defined.sample is Objective.sample:
            raise InputError(f"{objective} has no probabilities, so evaluation.actions cannot be sampled")
        if self.condition_config.guidance != 1 and defined.guided is Objective.guided:
            raise InputError(f"{objective} has no guidance, so condition.guidance must be 1")
        if inference == "window" and self.objective.initial_state(1):
            raise InputError(f"{objective} carries a state, so evaluation.inference cannot be window")


def check_objective(agent: DecisionAgent, batch: Batch, name: str) -> None:
    """InputError, naming the rule, if an objective breaks one on a batch: the loss is a finite scalar with a gradient,
    metrics are scalars, actions have the data's shape and are within [-1, 1]. Uses up no random numbers."""
    agent, device = copy.deepcopy(agent), batch.reset.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        run, value = partial(agent.run_backbone, reset=batch.reset, state=None), agent.condition.from_batch(batch)
        value, hidden, _ = agent.hidden_states(run, value, batch.observation, batch.previous_action, batch.timestep)
        hidden = agent.modulate(value, hidden)
        loss, metrics = agent.objective.loss(hidden, agent.with_targets(batch))
        with torch.inference_mode():
            action = agent.eval().objective.action(hidden)
    rules = {
        "its loss must be a finite scalar with a gradient": not loss.dim() and loss.requires_grad and loss.isfinite(),
        **{f"its metric {key} must be a scalar": torch.as_tensor(x).numel() == 1 for key, x in metrics.items()},
        f"its actions must have the shape {tuple(batch.action.shape)}": action.shape == batch.action.shape,
        "its actions must be within [-1, 1]": action.abs().max() <= 1 + 1e-5,
    }
    if broken := [rule for rule, holds in rules.items() if not holds]:
        raise InputError(f"objective {name} breaks a rule: {broken[0]}")
