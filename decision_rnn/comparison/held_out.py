"""The loss on held-out episodes, by which agents are compared whose data have no environment."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from gymnasium.spaces import Box

from decision_rnn.agent import MSEConfig
from decision_rnn.backbones import count_parameters
from decision_rnn.comparison.record import HeldOut
from decision_rnn.comparison.variants import Variant
from decision_rnn.config import RunConfig
from decision_rnn.data.store import EpisodeStore
from decision_rnn.evaluation.actor import actor_of
from decision_rnn.evaluation.evaluate import action_cost
from decision_rnn.evaluation.results import PACKAGES, Measurements
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.training.prepare import prepare, select_episodes
from decision_rnn.training.validation import Validation
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.machine import commit, hardware, versions


def measure_unplayed(trained: TrainedAgent, config: RunConfig) -> Measurements:
    """Measurements of an agent that plays nothing; not the time of an action, which differs whenever it is measured."""
    agent = trained.agent
    _, state_bytes = action_cost(actor_of(trained, config.evaluation), agent.observation_dim)
    return Measurements(
        step=trained.step,
        targets=(),
        remarks=(),
        training_seconds=round(trained.seconds, 1),
        evaluation_seconds=0.0,
        parameters=count_parameters(agent),
        backbone_parameters=count_parameters(agent.backbone),
        state_bytes=state_bytes,
        commit=commit(),
        versions=versions(PACKAGES),
        hardware=hardware(),
    )


class HeldOutLoss:
    """The loss of trained agents on held-out episodes, over the same segments, goals and noise for all variants.

    A run's own `validation_loss` depends on its `context` and `top_fraction`, which variants may differ in. Here the
    segments are those of the first variant, with the state carried from segment to segment as far as that of any
    variant is in training. If the objectives differ, the squared error of the actions takes the place of the loss.

    Attributes:
        record: What a comparison reports of it.

    Args:
        variants: The variants, the first of which names the episodes as its `validation`.
        dataset: The name of the data that they are trained on.
        store: These data.

    Raises:
        InputError: If the episodes are not available, too few, of another task or those that are trained on, or the
            objectives differ and one of them has no squared error.
    """

    def __init__(self, variants: Sequence[Variant], dataset: str, store: EpisodeStore) -> None:
        configs = [replace(variant.config, dataset=dataset) for variant in variants]
        first, self.store = configs[0], store
        assert first.validation is not None
        carried = max(config.tbptt_segments for config in configs)
        drawn = replace(first, training=replace(first.training, tbptt_segments=carried, precision="fp32"))
        self.validation = Validation(drawn, store, store.observation_space, torch.device("cpu"))
        episodes = self.validation.store
        if episodes.fingerprint == select_episodes(first, store).fingerprint:
            raise InputError(
                f"validation {first.validation} holds the episodes that are trained on: name others of the same task"
            )
        differ = any(config.objective_options != first.objective_options for config in configs)
        for variant, config in zip(variants, configs, strict=True) if differ else ():
            if not self._has_squared_error(config):
                raise InputError(
                    f"the objective {config.objective_options.name} of {variant.label} has no squared error, by which "
                    "variants of different objectives are compared: compare variants of one objective"
                )
        self.record = HeldOut(
            dataset=first.validation,
            fingerprint=episodes.fingerprint,
            episodes=len(episodes),
            steps=episodes.steps,
            measure="squared_error" if differ else "loss",
        )

    def __call__(self, trained: TrainedAgent) -> float:
        """The loss of an agent, or its squared error, in fp32 on one thread: the same on other machines, but for
        rounding."""
        means = self._means(trained.config, trained)
        return means.get(f"validation_{self.record.measure}", means["validation_loss"])

    def _has_squared_error(self, config: RunConfig) -> bool:
        """Whether an objective logs its squared error, or has it as its loss, as the default in a Box does."""
        if isinstance(config.objective_options, MSEConfig):
            return isinstance(self.store.action_space, Box)
        return "validation_squared_error" in self._means(config)

    def _means(self, config: RunConfig, trained: TrainedAgent | None = None) -> dict[str, float]:
        """What `Validation` returns of a trained agent, or of one before its first step."""
        config = replace(config, training=replace(config.training, device="cpu"))
        observations, actions = self.store.observation_space, self.store.action_space
        spaces = observations, actions if trained is None else trained.agent.action_space
        with one_thread(), torch.random.fork_rng():
            # The agent of a checkpoint lacks what training showed at most of a return-to-go: the data have it.
            agent, *_ = prepare(config, select_episodes(config, self.store), 1.0, spaces, trained)
            return self.validation(agent.eval())
