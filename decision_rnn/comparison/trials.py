"""The trials of a comparison: ordinary runs, started by an executor and read from their folders."""

from dataclasses import dataclass, fields
from pathlib import Path

import yaml

from decision_rnn.comparison.executors.contract import Task
from decision_rnn.comparison.record import CheckpointScores, Trial
from decision_rnn.config import RunConfig, to_dict
from decision_rnn.data.summary import DataSummary
from decision_rnn.evaluation.evaluate import checkpoint_settings, summarise_data
from decision_rnn.evaluation.results import Measurements, stored_result
from decision_rnn.training.run_folder import read_metrics


@dataclass(frozen=True, kw_only=True)
class PlannedTrial:
    """One run of a comparison.

    Attributes:
        variant: The variant's label.
        config: Configuration of the run, with its dataset, seed and target returns.
        output: Folder of the comparison.
        run: Folder of the run, relative to `output`.
        data: The data that the run is trained on, as the comparison reports them.
    """

    variant: str
    config: RunConfig
    output: Path
    run: str
    data: DataSummary

    def task(self) -> Task:
        """What an executor needs to train and evaluate the run."""
        text = yaml.safe_dump(to_dict(self.config), sort_keys=False)
        return Task(self.output / self.run, text, self.config.plugins, self.config.training.device)

    def collect(self) -> Trial | None:
        """The results in the run's folder, or None if it is not finished."""
        config, folder, settings = self.config, self.output / self.run, self.config.evaluation
        steps, every = config.training.steps, config.training.checkpoint_every
        checkpoints = []
        for step in sorted({*range(every, steps, every), steps}) if settings.checkpoint_episodes else ():
            scores = stored_result(folder, config, self.data, step, checkpoint_settings(config, self.data))
            if scores is not None:
                checkpoints.append(CheckpointScores(step=step, targets=scores.targets))
            elif step == steps:
                return None
        result = stored_result(folder, config, self.data, steps, settings)
        if result is None:
            return None
        measured = {field.name: getattr(result, field.name) for field in fields(Measurements)}
        comparable = summarise_data(self.data, config).comparable
        if comparable != self.data.comparable:
            measured["remarks"] = (comparable, *result.remarks)
        return Trial(
            variant=self.variant,
            dataset=self.data.name,
            seed=config.seed,
            run=self.run,
            checkpoints=tuple(checkpoints),
            loss=tuple((int(line["step"]), line["loss"]) for line in read_metrics(folder)),
            **measured,
        )
