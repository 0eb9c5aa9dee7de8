"""An agent in your own loop: one environment or many, NumPy in and out, resets at any time."""

import sys
from typing import Literal

import gymnasium
import numpy as np
import torch
from numpy.typing import ArrayLike

from decision_rnn.agent import ActingState
from decision_rnn.deploy.acting import ActingLoop
from decision_rnn.evaluation.actor import actor_of
from decision_rnn.evaluation.targets import check_conditioned, default_return
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.training.configuration import evaluation_settings
from decision_rnn.utils.errors import InputError


class EnvironmentActor(ActingLoop[ActingState]):
    """The agent for your own loop; `run.actor(target_return)` makes one.

    It carries the agent's memory between calls. One environment: observations (O,), rewards a number, actions (A,)
    float32. Many: pass the vector environment, or the number of environments; then observations are (num_envs, O),
    rewards (num_envs,), actions (num_envs, A). Pass the unnormalised reward of every previous action: it updates the
    return-to-go. On the same observations and rewards it acts as `evaluate` does.

    Pass `done`, the third argument, or call `reset` when episodes have ended. A vector environment resets its
    environments itself, and `done` is `terminated | truncated` as its `step` returned them. With Gymnasium's default,
    `AutoresetMode.NEXT_STEP`, the observation returned with it is the episode's last one, the action for it is not
    executed, and the next observation is the first of the new episode. In the other modes, and for one environment that
    has been reset, the observation passed with a true `done` is that first one. The mode is read from `env`.

    Args:
        trained: The agent, such as `load_agent` returns.
        target_return: The target return of every episode, or one for each environment, (num_envs,); if left out, the
            first of the run's evaluation. An agent trained by cloning takes none.
        env: The environment to act in, for its number of environments and how they are reset.
        num_envs: The number of environments, if there is no `env`; if left out, the first call determines it.
        inference: `recurrent` to carry the state, or `window` to re-run the last steps; the run's setting if left out.
        window: Steps in that window, if `inference` is `window`; the run's setting if left out.

    Raises:
        InputError: If the environment's sizes are not the agent's, or a value is invalid.

    Example:
        >>> env = gymnasium.make("MountainCarContinuous-v0")
        >>> actor = run.actor(target_return=90)
        >>> actor.reset()
        >>> observation, _ = env.reset(seed=1)
        >>> reward, done = 0.0, False
        >>> while not done:
        ...     action = actor(observation, reward)
        ...     observation, reward, terminated, truncated, _ = env.step(action)
        ...     done = terminated or truncated

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
        num_envs: int | None = None,
        inference: Literal["recurrent", "window"] | None = None,
        window: int | None = None,
    ) -> None:
        if not isinstance(trained, TrainedAgent):
            raise InputError(f"{type(trained).__name__} is not an agent: give what load_agent returned, or run.agent")
        settings = evaluation_settings(trained.config.evaluation, inference=inference, window=window)
        self._config, agent = trained.config, trained.agent
        self._actor = actor_of(agent, settings)
        self.observation_layout, self.action_layout = agent.observation_layout, agent.action_layout
        # An agent with an observation mask knows only the minimum size of an observation.
        self.max_observation_dim = self.observation_layout.size if agent.encoder.index is None else sys.maxsize
        self.limited = bool(getattr(trained.config.condition_options, "limited", False))
        super().__init__(default_return(trained.config, trained.provenance) or 0.0, env, num_envs)
        if target_return is not None:
            self.reset(target_return)

    def reset(self, target_return: ArrayLike | None = None, done: ArrayLike | None = None) -> None:
        """See `ActingLoop.reset`; raises InputError also for a target return of an agent trained by cloning."""
        if target_return is not None:
            check_conditioned(self._config)
        super().reset(target_return, done)

    @torch.inference_mode()
    def initial_state(self, environments: int) -> ActingState:
        """The state before an episode's first step."""
        return self._actor.initial_state(torch.zeros(environments))

    @torch.inference_mode()
    def step(
        self,
        observation: np.ndarray,
        reward: np.ndarray,
        reset: np.ndarray,
        target_return: np.ndarray,
        state: ActingState,
    ) -> tuple[np.ndarray, ActingState]:
        """One step of the agent, without the state that is kept between calls; see `ActingLoop.step`."""
        if reset.any():
            state = state.reset(self._actor.initial_state(torch.tensor(target_return)), torch.tensor(reset))
        action, state, _ = self._actor.act(torch.tensor(observation), torch.tensor(reward), state)
        return action.numpy(), state
