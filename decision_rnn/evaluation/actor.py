"""An agent in a loop, a rollout's or your own: one environment or many, NumPy in and out, resets at any time."""

import copy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from decision_rnn.agent import ActingState, DecisionAgent
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.evaluation.acting import Actor
from decision_rnn.evaluation.targets import check_target, default_return
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent
from decision_rnn.runs.folder import run_of
from decision_rnn.runs.hub import find_agent
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import convert, to_plain


class EnvironmentActor(Actor[ActingState]):
    """The agent for your own loop; `run.actor(target_return)` makes one.

    It carries the agent's memory between calls. One environment: observations (O,), rewards a number, actions (A,)
    float32. Many: observations are (num_envs, O), rewards (num_envs,), actions (num_envs, A); if a vector environment
    steps them, pass it. Pass the unnormalised reward of every previous action: it updates the return-to-go. On the same
    observations and rewards it acts as `evaluate` does.

    Pass `done`, the third argument, or call `reset` when episodes have ended. A vector environment resets its
    environments itself, and `done` is `terminated | truncated` as its `step` returned them. With Gymnasium's default,
    `AutoresetMode.NEXT_STEP`, the observation returned with it is the episode's last one, the action for it is not
    executed, and the next observation is the first of the new episode. In the other modes, and for one environment that
    has been reset, the observation passed with a true `done` is that first one. The mode is read from `env`.

    Args:
        trained: The agent, such as `load_agent` returns.
        target_return: The target return of every episode, or one for each environment, (num_envs,); if left out, the
            first of the run's evaluation. An agent trained by cloning takes none.
        env: The environment to act in, for its number of environments and how they are reset; without one, the first
            call after a reset determines the number.
        inference: `recurrent` to carry the state, or `window` to re-run the last steps; the run's setting if left out.
        window: Steps in that window, if `inference` is `window`; the run's setting if left out.
        warn_outside: Warn of entries of observations that are more standard deviations than this from their mean in the
            training data, once per entry; no warnings if left out.

    Attributes:
        observation_names: The names of the entries of an observation; empty if the data have none. Then observations
            may also be dictionaries by these names. `action_names` likewise.
        condition_values: (num_envs, size), what the agent saw of its condition at the last step, such as its limited
            return-to-go; None before.

    Raises:
        InputError: If the environment's sizes are not the agent's, or a value is invalid.

    Example:
        >>> envs = gymnasium.make_vec("MountainCarContinuous-v0", num_envs=3)
        >>> actor = run.actor(target_return=[90, 50, 0], env=envs)
        >>> observation, _ = envs.reset(seed=1)
        >>> reward, done = np.zeros(3), np.zeros(3, bool)
        >>> for _ in range(100):
        ...     action = actor(observation, reward, done)
        ...     observation, reward, terminated, truncated, _ = envs.step(action)
        ...     done = terminated | truncated
        >>> action.shape
        (3, 1)
    """

    def __init__(
        self,
        trained: TrainedAgent,
        target_return: ArrayLike | None = None,
        *,
        env: gymnasium.Env | gymnasium.vector.VectorEnv | None = None,
        inference: Literal["recurrent", "window"] | None = None,
        window: int | None = None,
        warn_outside: float | None = None,
    ) -> None:
        config, agent, data = trained.config, trained.agent, trained.provenance
        settings = evaluation_settings(config.evaluation, inference=inference, window=window)
        agent.check_acting(settings.actions, settings.inference)
        self._agent, self._sample = prepare_to_act(agent), settings.actions == "sampled"
        self._window = settings.window if settings.inference == "window" else None
        self.condition_values: Tensor | None = None
        self.observation_layout, self.action_layout = agent.observation_layout, agent.action_layout
        self.observation_names = trained.observation_names
        self.action_names = data.action_names or self.action_layout.names
        self.observation_moments = agent.encoder.moments(self.observation_layout.size)
        self.reads_reward = config.condition.reads_reward
        self.limited = config.condition.limited
        super().__init__(default_return(config, data) or 0.0, env, warn_outside)
        if target_return is not None:
            check_target(config)
            self.reset(target_return)

    @torch.inference_mode()
    def initial_state(self, environments: int) -> ActingState:
        """The state before an episode's first step."""
        return self._initial_state(torch.zeros(environments))

    @torch.inference_mode()
    def step(
        self,
        observation: np.ndarray,
        reward: np.ndarray,
        reset: np.ndarray,
        target_return: np.ndarray,
        state: ActingState,
    ) -> tuple[np.ndarray, ActingState]:
        """One step of the agent, without the state that is kept between calls; see `Actor.step`."""
        if reset.any():
            state = state.reset(self._initial_state(torch.tensor(target_return)), torch.tensor(reset))
        inputs = torch.tensor(observation), torch.tensor(reward), state
        if self._window is None:
            action, state, self.condition_values = self._agent.act(*inputs, self._sample)
        else:
            action, state, self.condition_values = self._act_by_window(*inputs, self._window)
        return action.numpy(), state

    def _initial_state(self, target: Tensor) -> ActingState:
        """The state for targets (batch,); for a window its memory is the agent's inputs, each (batch, window, size)."""
        state = self._agent.initial_state(target)
        if self._window is None:
            return state
        sizes = (self._agent.condition.size, self._agent.observation_dim, self._agent.action_dim)
        memory = (state.previous_action.new_zeros(len(target), self._window, size) for size in sizes)
        return state._replace(memory=tuple(memory))

    def _act_by_window(
        self, observation: Tensor, reward: Tensor, state: ActingState, window: int
    ) -> tuple[Tensor, ActingState, Tensor]:
        """Re-run the last steps from the initial state: the Decision Transformer's protocol."""
        value, condition = self._agent.condition.step(state.condition, reward, state.timestep == 0)
        newest = value, observation, state.previous_action
        memory = [torch.cat([old[:, 1:], new[:, None]], 1) for old, new in zip(state.memory, newest, strict=True)]
        steps = min(int(state.timestep.max()) + 1, window)
        # A row's steps before its episode have timestep 0, which is a reset: what is before it has no effect.
        timesteps = (state.timestep[:, None] - torch.arange(steps - 1, -1, -1)).clamp_min(0)
        values, observations, previous_actions = (inputs[:, -steps:] for inputs in memory)
        inputs = values, observations, previous_actions, timesteps, timesteps == 0
        actions, _, values = self._agent.predict(*inputs, sample=self._sample)
        action = actions[:, -1]
        return action, ActingState(condition, action, state.timestep + 1, tuple(memory)), values[:, -1]


@torch.no_grad()
def prepare_to_act(agent: DecisionAgent) -> DecisionAgent:
    """Copy the agent to the CPU, in evaluation mode, with the weights of its linear layers stored transposed.

    A product with a small batch otherwise spends a third of its time on transposing them. The values are unchanged.
    """
    agent = copy.deepcopy(agent).cpu().eval()
    for module in agent.modules():
        if isinstance(module, nn.Linear):
            module.weight.data = module.weight.data.t().contiguous().t()
    return agent


def evaluation_settings(configured: EvaluationConfig, **overrides: Any) -> EvaluationConfig:
    """The configured settings, overridden by those that are not None; raises InputError for an invalid one."""
    values = {name: to_plain(value) for name, value in overrides.items() if value is not None}
    settings: EvaluationConfig = convert({**asdict(configured), **values}, EvaluationConfig)
    if "window" in values and settings.inference != "window":
        raise InputError(f"window is {settings.window}, but inference is recurrent. Pass inference='window'.")
    return settings


@dataclass(frozen=True)
class ExportedPolicy:
    """An exported policy, and what its file says of the agent: see `TrainedAgent` and `Measurements`."""

    actor: Actor[Any]
    config: RunConfig = field(repr=False)
    provenance: DatasetSpec = field(repr=False)
    step: int
    seconds: float
    parameters: int
    backbone_parameters: int


def find_policy(agent: Any) -> tuple[TrainedAgent | ExportedPolicy, Path | None]:
    """The agent that a run, a name or itself stands for, and the folder of its run, if it is named; or an exported
    policy. InputError if it is none."""
    if isinstance(agent, str | Path):
        if Path(agent).suffix == ".onnx":
            raise InputError(f"{agent} is an exported policy. Pass decision_rnn.deploy.load_policy({str(agent)!r}).")
        path = find_agent(agent)
        return load_agent(path), run_of(path)
    if isinstance(agent, TrainedAgent | ExportedPolicy):
        return agent, None
    if isinstance(getattr(agent, "agent", None), TrainedAgent):  # a run, whose class imports this module
        return agent.agent, agent.folder
    raise InputError(f"agent is a {type(agent).__name__}. Pass a run, a trained agent or a name.")


def actor_of(trained: TrainedAgent | ExportedPolicy, settings: EvaluationConfig) -> Actor[Any]:
    """An exported policy's actor, or a copy of an agent, ready to act as the settings say."""
    if isinstance(trained, ExportedPolicy):
        return trained.actor
    return EnvironmentActor(replace(trained, config=replace(trained.config, evaluation=settings)))
