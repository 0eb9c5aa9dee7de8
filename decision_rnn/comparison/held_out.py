"""The loss on held-out episodes, which compares agents that are not evaluated in an environment."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from gymnasium.spaces import Box

from decision_rnn.agent import MSEConfig
from decision_rnn.comparison.record import HeldOut
from decision_rnn.comparison.variants import Variant
from decision_rnn.config import RunConfig
from decision_rnn.data.store import EpisodeStore
from decision_rnn.evaluation.actor import actor_of
from decision_rnn.evaluation.evaluate import action_cost, measured_at
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent
from decision_rnn.runs.folder import final_step
from decision_rnn.training.prepare import make_agent, make_stream, open_validation, select_episodes
from decision_rnn.training.validation import Validation
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import warn


class HeldOutLoss:
    """The loss of trained agents on held-out episodes, over the same segments, goals and noise for all variants.

    A run's own `validation_loss` depends on its `context` and `top_fraction`, which variants may differ in. Here the
    segments are those of the first variant, with the state carried from segment to segment as far as that of any
    variant is in training. If the objectives differ, the squared error of the actions takes the place of the loss.

    The first of the variants names the episodes, as its `validation`; `dataset` and `store` are what they are trained
    on. InputError if the episodes are not available, too few, of another task or those that are trained on; KeyError if
    the objectives differ and one of them has no squared error.
    """

    def __init__(self, variants: Sequence[Variant], dataset: str, store: EpisodeStore) -> None:
        configs = [replace(variant.config, dataset=dataset) for variant in variants]
        first, self.store = configs[0], store
        segments = max(config.tbptt_segments for config in configs)
        validated = replace(first, training=replace(first.training, tbptt_segments=segments, precision="fp32"))
        episodes = open_validation(validated, store)
        self.validation = Validation(make_stream(validated, episodes, store.observation_space, 0), validated.training)
        if episodes.fingerprint == select_episodes(first, store).fingerprint:
            raise InputError(f"validation {first.validation} holds the episodes that are trained on. Name others.")
        differ = any(config.objective != first.objective for config in configs)
        self.record = HeldOut(
            dataset=str(first.validation),
            fingerprint=episodes.fingerprint,
            episodes=len(episodes),
            steps=episodes.steps,
            measure="squared_error" if differ else "loss",
        )
        for config in configs if differ else ():
            self(config)

    def __call__(self, config: RunConfig, trained: TrainedAgent | None = None) -> float:
        """The loss, or the squared error, of a trained agent or of one before its first step, in fp32 on one thread:
        the same on other machines, but for rounding."""
        observations, actions = self.store.observation_space, self.store.action_space
        spaces = observations, actions if trained is None else trained.agent.action_space
        with one_thread(), torch.random.fork_rng():
            # The agent of a checkpoint lacks what training showed at most of a return-to-go: the data have it.
            agent = make_agent(config, select_episodes(config, self.store), 1.0, spaces, trained)
            means = self.validation(agent.eval())
        squares = isinstance(config.objective, MSEConfig) and isinstance(self.store.action_space, Box)
        return means["validation_loss" if squares else f"validation_{self.record.measure}"]

    def measure(self, run: Path, config: RunConfig) -> dict[str, Any] | None:
        """What a `Trial` holds of the last checkpoint of a run that plays nothing, but for the time of an action, which
        differs whenever it is measured; None if the checkpoint is not there."""
        checkpoint = run / "checkpoints" / str(final_step(run, config))
        if not checkpoint.is_dir():
            return None
        try:
            trained = load_agent(checkpoint)
        except InputError as error:  # it is damaged: resuming the run fails and names the file
            warn(f"skipped: {error}")
            return None
        return {
            "held_out_loss": self(trained.config, trained),
            **dict.fromkeys(("checkpoints", "targets", "remarks"), ()),
            "evaluation_seconds": 0.0,
            "state_bytes": action_cost(actor_of(trained, config.evaluation), trained.agent.observation_dim)[1],
            **measured_at(trained),
        }
