"""The score on held-out episodes, by which agents are compared that are not played."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from decision_rnn.comparison.record import HeldOut
from decision_rnn.comparison.variants import Variant
from decision_rnn.config import RunConfig
from decision_rnn.data.dataset import Dataset
from decision_rnn.evaluation.actor import actor_of
from decision_rnn.evaluation.evaluate import measured_at, state_bytes
from decision_rnn.evaluation.held_out import held_out_score, reference_actions, score_predictions
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent
from decision_rnn.runs.folder import final_step
from decision_rnn.training.prepare import make_agent, open_validation, select_episodes
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import warn


class HeldOutEvaluator:
    """Measures trained agents on the same held-out episodes, those of the `validation` of the first variant.

    `record` has these episodes, and the errors of the references, fitted on the training data of the first variant.
    InputError if the episodes are not available, too few, of another task or those that are trained on, or if their
    actions never change.
    """

    def __init__(self, variants: Sequence[Variant], dataset: Dataset) -> None:
        config, self.store = replace(variants[0].config, dataset=dataset.name), dataset.store
        self.episodes, training = open_validation(config, self.store), select_episodes(config, self.store)
        if self.episodes.fingerprint == training.fingerprint:
            raise InputError(f"validation {config.validation} holds the episodes that are trained on. Name others.")
        with torch.random.fork_rng():
            untrained = TrainedAgent(make_agent(config, training, 1.0), config, dataset.spec, 0, 0.0)
        predictions = reference_actions(untrained, self.episodes, training)
        score = score_predictions(untrained, self.episodes, predictions)
        if not any(score.variance):
            raise InputError(f"the actions of validation {config.validation} never change. Name other episodes.")
        references = {name: tuple(score.episode_errors(name).tolist()) for name in score.errors}
        described = str(config.validation), self.episodes.fingerprint, score.measure, score.steps
        self.record = HeldOut(*described, references)

    def measure(self, run: Path, config: RunConfig) -> dict[str, Any] | None:
        """What a `Trial` holds of the last checkpoint of a run that plays nothing, but for the time of an action, which
        differs whenever it is measured; None if the checkpoint is not there or of no use."""
        checkpoint = run / "checkpoints" / str(final_step(run, config))
        if not checkpoint.is_dir():
            return None
        try:
            trained = replace(load_agent(checkpoint), config=config)  # which may have it act in another way by now
            score = held_out_score(trained, self.episodes, select_episodes(config, self.store), references=False)
        except InputError as error:  # it has diverged, or is damaged: resuming the run fails and names the file
            warn(f"skipped: {error}")
            return None
        return {
            "held_out": tuple(score.episode_errors().tolist()),
            "state_bytes": state_bytes(actor_of(trained, config.evaluation)),
            **measured_at(trained),
        }
