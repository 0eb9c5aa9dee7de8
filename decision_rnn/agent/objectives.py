"""Training objectives: an output head, its loss, and the actions that it chooses.

An objective is registered here or in a user's module, which `--plugins` imports.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import gymnasium
import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from decision_rnn.agent.spaces import AgentSpec
from decision_rnn.backbones import State
from decision_rnn.data.layouts import Layout
from decision_rnn.data.stream import Batch
from decision_rnn.utils.distributed import training_mean
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import STRICT, PositiveInt
from decision_rnn.utils.registry import Class, Registry

Metrics = Mapping[str, Tensor]
"""Scalars by name, which are logged with the loss."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ObjectiveConfig:
    """Options that all objectives share.

    Attributes:
        name: The objective's name.
    """

    name: str


OBJECTIVES: Registry[ObjectiveConfig] = Registry("objective")


def register_objective(config: type[ObjectiveConfig]) -> Callable[[Class], Class]:
    """Class decorator: register an objective under the name in its configuration class; see `Registry.register`."""
    return OBJECTIVES.register(config)


class Objective(nn.Module, ABC):
    """Maps the agent's hidden states to a loss in training and to actions in the environment.

    It is created as `Objective(config, spec)`, where `config` is of the class it was registered with and `spec`, an
    `AgentSpec`, has the width of the hidden states, the spaces, the data's statistics and the return scale.

    Attributes:
        samples: Whether `sample` is defined.
    """

    samples: bool = False

    @abstractmethod
    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        """The loss that training minimises, and metrics to log.

        Args:
            hidden: (batch, time, width), float32, the hidden state at every step, which depends on all of the step's
                inputs.
            batch: The batch, with actions in a Box scaled to [-1, 1], and discrete actions as one-hot vectors.

        Returns:
            A scalar in float32, the mean over batch and time, and scalars by name.
        """

    @abstractmethod
    def action(self, hidden: Tensor) -> Tensor:
        """The actions to take, (..., action_dim), at hidden states (..., width): within [-1, 1] in a Box, which the
        agent scales to the action space, and one-hot vectors for discrete actions."""

    def sample(self, hidden: Tensor) -> Tensor:
        """Sampled actions, as `action`, where `evaluation.actions` is `sampled`."""
        raise NotImplementedError

    def initial_state(self, batch_size: int) -> State:
        """What `step` carries through an episode, such as a plan, before its first step; nothing by default."""
        return ()

    def step(self, hidden: Tensor, timestep: Tensor, state: State) -> tuple[Tensor, State]:
        """Choose the acting agent's actions, by default those of `action`.

        Args:
            hidden: (batch, width).
            timestep: (batch,) int64, steps since the episode's start.
            state: From `initial_state` or the previous call.

        Returns:
            Actions, (batch, action_dim), and the state for the next call.
        """
        return self.action(hidden), state


class MSE(Objective):
    """Mean squared error of actions tanh(W h + b) in a Box."""

    def __init__(self, spec: AgentSpec) -> None:
        super().__init__()
        self.head = nn.Linear(spec.width, Layout.of_actions(spec.action_space).size)

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        return F.mse_loss(self.action(hidden), batch.action), {}

    def action(self, hidden: Tensor) -> Tensor:
        return torch.tanh(self.head(hidden))


class CrossEntropy(Objective):
    """Cross-entropy of discrete actions with logits W h + b, summed over the entries of an action.

    Metrics: `accuracy`, the share of actions of which every entry is the most probable choice.
    """

    samples = True

    def __init__(self, spec: AgentSpec) -> None:
        super().__init__()
        layout = Layout.of_actions(spec.action_space)
        self.choices: Sequence[int] = layout.parts[0].choices
        self.head = nn.Linear(spec.width, layout.size)

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        entries = zip(self._logits(hidden), batch.action.split(self.choices, dim=-1), strict=True)
        losses, hits = [], []
        for logits, action in entries:
            losses.append(-(action * logits.log_softmax(-1)).sum(-1).mean())
            hits.append(logits.argmax(-1) == action.argmax(-1))
        return torch.stack(losses).sum(), {"accuracy": torch.stack(hits).all(0).float().mean()}

    def action(self, hidden: Tensor) -> Tensor:
        return torch.cat([one_hot_argmax(logits) for logits in self._logits(hidden)], dim=-1)

    def sample(self, hidden: Tensor) -> Tensor:
        return torch.cat([one_hot_argmax(add_gumbel_noise(logits)) for logits in self._logits(hidden)], dim=-1)

    def _logits(self, hidden: Tensor) -> tuple[Tensor, ...]:
        return self.head(hidden).split(self.choices, dim=-1)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class MSEConfig(ObjectiveConfig):
    """Squared error of actions in a Box, cross-entropy of discrete actions."""

    name: str = "mse"


@register_objective(MSEConfig)
def mse(config: MSEConfig, spec: AgentSpec) -> Objective:
    """`MSE` in a Box, `CrossEntropy` for discrete actions, as in Chen et al., "Decision Transformer" (2021)."""
    return MSE(spec) if isinstance(spec.action_space, gymnasium.spaces.Box) else CrossEntropy(spec)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class GMMConfig(ObjectiveConfig):
    """Likelihood of actions under a mixture of Gaussians in a Box, cross-entropy of discrete actions.

    Attributes:
        num_components: The number of Gaussians.
        min_std: Smallest standard deviation of a Gaussian, in units of half the action's range.
    """

    name: str = "gmm"
    num_components: PositiveInt = 5
    min_std: Annotated[float, Field(gt=0)] = 0.1


class GMM(Objective):
    """Mixture-of-Gaussians head for multimodal actions in a Box, trained by the negative log-likelihood.

    Components have means tanh(W h + b) and independent entries with standard deviations softplus(W h + b) + `min_std`:
    without the latter, the likelihood of actions at the bounds, which are exactly equal, would have no maximum. It is
    the head of robomimic's BC-RNN-GMM (Mandlekar et al., "What Matters in Learning from Offline Human Demonstrations
    for Robot Manipulation", 2021), acting as in its low-noise evaluation: the agent takes the mean of the most probable
    component, sampled actions are the mean of a component drawn by its probability.

    Metrics: `squared_error`, of the most probable component's mean.
    """

    samples = True

    def __init__(self, config: GMMConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.min_std = config.min_std
        self.shape = config.num_components, Layout.of_actions(spec.action_space).size
        self.head = nn.Linear(spec.width, config.num_components * (1 + 2 * self.shape[1]))

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        logits, means, scales = self._mixture(hidden)
        # Validation of the arguments would synchronise with the device.
        components = torch.distributions.Normal(means, F.softplus(scales) + self.min_std, validate_args=False)
        log_likelihoods = components.log_prob(batch.action.unsqueeze(-2)).sum(-1)
        loss = -(logits.log_softmax(-1) + log_likelihoods).logsumexp(-1).mean()
        return loss, {"squared_error": F.mse_loss(_select_mean(logits, means), batch.action)}

    def action(self, hidden: Tensor) -> Tensor:
        logits, means, _ = self._mixture(hidden)
        return _select_mean(logits, means)

    def sample(self, hidden: Tensor) -> Tensor:
        logits, means, _ = self._mixture(hidden)
        return _select_mean(add_gumbel_noise(logits), means)

    def _mixture(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (..., components), means and scales before the softplus, each (..., components, action_dim)."""
        components, size = self.shape
        logits, means, scales = self.head(hidden).split([components, components * size, components * size], dim=-1)
        return logits, torch.tanh(means).unflatten(-1, self.shape), scales.unflatten(-1, self.shape)


def _select_mean(logits: Tensor, means: Tensor) -> Tensor:
    """The mean, (..., action_dim), of the component with the largest logit."""
    return (means * one_hot_argmax(logits).unsqueeze(-1)).sum(-2)


@register_objective(GMMConfig)
def gmm(config: GMMConfig, spec: AgentSpec) -> Objective:
    """`GMM` in a Box, `CrossEntropy` for discrete actions, which it represents without a mixture."""
    return GMM(config, spec) if isinstance(spec.action_space, gymnasium.spaces.Box) else CrossEntropy(spec)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class FlowMatchingConfig(ObjectiveConfig):
    """Flow from noise to actions in a Box.

    Attributes:
        flow_steps: The number of Euler steps from noise to an action.
        width: Channels of the two hidden layers of the velocity network.
    """

    name: str = "flow_matching"
    flow_steps: PositiveInt = 10
    width: PositiveInt = 256


@register_objective(FlowMatchingConfig)
class FlowMatching(Objective):
    """Flow-matching head for actions of any distribution in a Box.

    Flow matching (Lipman et al., "Flow Matching for Generative Modeling", 2023) on the straight paths of rectified flow
    (Liu et al., "Flow Straight and Fast", 2023), as the BC policy of FQL (Park et al., "Flow Q-Learning", 2025).

    With the data's action a, noise z ~ N(0, I), a time t ~ U(0, 1) and the hidden state h, the loss is
    mean((v(h, x_t, t) - (a - z))^2) at x_t = (1 - t) z + t a. An action is x_1, clipped to the Box, of
    x_{t + 1/K} = x_t + v(h, x_t, t) / K in K steps from x_0 = z.

    The agent starts from z = 0, the mode of the noise; sampled actions start from noise drawn at every step.

    Metrics: `squared_error`, of the action that the agent takes at the last step of a segment.
    """

    samples = True

    def __init__(self, config: FlowMatchingConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.flow_steps, self.action_dim = config.flow_steps, box_size(spec, config.name)
        # The first layer in two parts, of which that of the hidden state is the same at all steps of the flow.
        self.embed_hidden = nn.Linear(spec.width, config.width)
        self.embed_noisy = nn.Linear(self.action_dim + 1, config.width, bias=False)
        self.head = nn.Sequential(
            nn.GELU(), nn.Linear(config.width, config.width), nn.GELU(), nn.Linear(config.width, self.action_dim)
        )

    def velocity(self, embedded: Tensor, noisy: Tensor, time: Tensor) -> Tensor:
        """(..., action_dim), at embedded hidden states (..., channels), x_t (..., action_dim) and times (..., 1)."""
        return self.head(embedded + self.embed_noisy(torch.cat([noisy, time], dim=-1)))

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        embedded, action = self.embed_hidden(hidden), batch.action
        noise, time = torch.randn_like(action), torch.rand_like(action[..., :1])
        velocity = self.velocity(embedded, torch.lerp(noise, action, time), time)
        with torch.no_grad():  # at one step a segment: K evaluations at all of them would take longer than the loss
            error = F.mse_loss(self.action(hidden[:, -1]), action[:, -1])
        return F.mse_loss(velocity, action - noise), {"squared_error": error}

    def action(self, hidden: Tensor) -> Tensor:
        return self._flow(hidden, hidden.new_zeros(*hidden.shape[:-1], self.action_dim))

    def sample(self, hidden: Tensor) -> Tensor:
        return self._flow(hidden, torch.randn(*hidden.shape[:-1], self.action_dim, device=hidden.device))

    def _flow(self, hidden: Tensor, noise: Tensor) -> Tensor:
        embedded, x = self.embed_hidden(hidden), noise
        for step in range(self.flow_steps):
            time = torch.full_like(x[..., :1], step / self.flow_steps)
            x = x + self.velocity(embedded, x, time) / self.flow_steps
        return x.clamp(-1, 1)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ActionChunkConfig(ObjectiveConfig):
    """Several actions at once, in a Box.

    Attributes:
        chunk_size: The number of actions that are predicted and executed together.
    """

    name: str = "action_chunk"
    chunk_size: PositiveInt = 5


@register_objective(ActionChunkConfig)
class ActionChunk(Objective):
    """Action chunking: predict the next k actions, tanh(W h + b), and execute them open-loop (Zhao et al., "Learning
    Fine-Grained Bimanual Manipulation with Low-Cost Hardware", 2023, without their temporal ensemble).

    The loss is the mean squared error over the predicted actions within the episode and the segment.

    Metrics: `squared_error`, of the first action of a chunk.
    """

    def __init__(self, config: ActionChunkConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.shape = config.chunk_size, box_size(spec, config.name)
        self.head = nn.Linear(spec.width, config.chunk_size * self.shape[1])

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        pad = self.shape[0] - 1
        targets = F.pad(batch.action, (0, 0, 0, pad)).unfold(1, pad + 1, 1).transpose(-1, -2)
        episode = batch.reset.cumsum(1)
        valid = F.pad(episode, (0, pad), value=-1).unfold(1, pad + 1, 1) == episode.unsqueeze(-1)
        errors = (self._chunk(hidden) - targets).square().mean(-1)
        return (errors * valid).sum() / training_mean(valid.sum()), {"squared_error": errors[..., 0].mean()}

    def action(self, hidden: Tensor) -> Tensor:
        return self._chunk(hidden)[..., 0, :]

    def initial_state(self, batch_size: int) -> State:
        return (self.head.weight.new_zeros(batch_size, *self.shape),)

    def step(self, hidden: Tensor, timestep: Tensor, state: State) -> tuple[Tensor, State]:
        (chunk,), index = state, timestep % self.shape[0]
        chunk = torch.where((index == 0)[:, None, None], self._chunk(hidden), chunk)
        # Comparing indices, unlike Tensor.gather, exports to ONNX for any batch size.
        selected = index.unsqueeze(-1) == torch.arange(self.shape[0], device=index.device)
        return (chunk * selected.unsqueeze(-1)).sum(1), (chunk,)

    def _chunk(self, hidden: Tensor) -> Tensor:
        """(..., chunk_size, action_dim)."""
        return torch.tanh(self.head(hidden)).unflatten(-1, self.shape)


def box_size(spec: AgentSpec, objective: str) -> int:
    """The number of action entries, for an objective that acts in a Box alone; InputError for other spaces."""
    if not isinstance(spec.action_space, gymnasium.spaces.Box):
        raise InputError(f"objective {objective} needs actions in a Box, not {spec.action_space}. Use objective mse.")
    return Layout.of_actions(spec.action_space).size


def one_hot_argmax(logits: Tensor) -> Tensor:
    """One-hot vectors of the largest logits, of their shape (..., choices) and dtype."""
    # Comparing indices, unlike F.one_hot and Tensor.gather, exports to ONNX for any batch size.
    return (logits.argmax(-1, keepdim=True) == torch.arange(logits.shape[-1], device=logits.device)).to(logits.dtype)


def add_gumbel_noise(logits: Tensor) -> Tensor:
    """Logits whose argmax is distributed as softmax(logits)."""
    return logits - torch.empty_like(logits).exponential_().log()
