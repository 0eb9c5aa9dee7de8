"""Results in a run's folder: those that are there are read, the others are played and written."""

from dataclasses import replace
from operator import attrgetter
from pathlib import Path

from decision_rnn.checkpoint import TrainedAgent
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.summary import DataSummary
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.results import Key, Protocol, Result, find_result, write_result
from decision_rnn.evaluation.targets import asked_returns, capped_as_best

SCALE = attrgetter("environment_id", "reference_min", "reference_max")
"""What scores depend on besides the episodes that a fingerprint identifies."""


def stored_result(
    run: Path, config: RunConfig, data: DataSummary, step: int, settings: EvaluationConfig
) -> Result | None:
    """The result of one of a run's checkpoints, or None if it has not been evaluated in this way on this scale.

    Args:
        run: The run's folder.
        config: The run's configuration.
        data: The data that it is trained on.
        step: The checkpoint's step.
        settings: How the checkpoint is evaluated.
    """
    protocol = Protocol.from_settings(settings, asked_returns(settings, data, config), config.takes_target)
    result = find_result(run, Key.from_run(config, data.fingerprint, step, protocol))
    return result if result is not None and SCALE(result.dataset) == SCALE(data) else None


def evaluate_once(run: Path, trained: TrainedAgent, settings: EvaluationConfig, processes: int | None = None) -> Result:
    """The stored result of a run's checkpoint, or that of `evaluate`, which is then stored."""
    result = stored_result(run, trained.config, trained.provenance, trained.step, settings)
    if result is None:
        result = evaluate(trained, settings, processes)
        write_result(run, result)
    return result


def checkpoint_settings(config: RunConfig, data: DataSummary) -> EvaluationConfig:
    """How every checkpoint of a run is evaluated: with `evaluation.checkpoint_episodes`, at the first target return of
    the run and, unless it is capped to the same, at the best in the data."""
    settings = config.evaluation
    first = asked_returns(settings, data, config)[0]
    targets = (first,) if capped_as_best(first, data, config) else tuple(dict.fromkeys((first, data.return_max)))
    return replace(settings, episodes=settings.checkpoint_episodes, target_returns=targets)
