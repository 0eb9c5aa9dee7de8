"""What `train` prints before the first step, and after the last one of an agent that it does not play."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

from decision_rnn.agent import DecisionAgent
from decision_rnn.backbones import count_parameters
from decision_rnn.config import RunConfig
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store import EpisodeStore
from decision_rnn.evaluation.held_out import score_run
from decision_rnn.evaluation.targets import describe_reach, evaluated_returns
from decision_rnn.runs.folder import BEST, lowest_loss, read_metrics
from decision_rnn.training.run import Run
from decision_rnn.utils.messages import align_columns, pluralize, shell_join


def describe_run(
    config: RunConfig, spec: DatasetSpec, agent: DecisionAgent, store: EpisodeStore, episodes: EpisodeStore
) -> Iterator[str]:
    """Lines with the agent's size, its steps and segments, its episodes if not all of the store are trained on, and how
    many of them reach the target returns."""
    backbone, training = config.backbone, config.training
    yield (
        f"{backbone.name}, {pluralize(backbone.layers, 'layer')} of width {backbone.width}: "
        f"{count_parameters(agent):,} parameters, {count_parameters(agent.backbone):,} of them in the backbone"
    )
    yield (
        f"{pluralize(training.steps, 'training step')} of {training.optimizer}, objective {config.objective.name}; "
        f"the learning rate warms up over the first {training.warmup:,}"
    )
    carried = f", whose state is carried over {config.tbptt_segments} on average" if config.tbptt_segments > 1 else ""
    yield f"segments of {training.context} steps{carried}"
    if episodes is not store:
        yield (
            f"the best {len(episodes):,} of {pluralize(len(store), 'episode')} are trained on, with returns from "
            f"{episodes.episode_returns.min():g}"
        )
    targets = evaluated_returns(config.evaluation, spec, config) if config.takes_return else ()
    if reach := describe_reach(targets, episodes.episode_returns):
        yield reach


def summarise(run: Run) -> str:
    """The losses of a run, first, lowest held-out and last, the score of its last agent on the held-out episodes beside
    references, and commands to go on with."""
    config, step, folder = run.config, run.agent.step, Path(os.path.relpath(run.folder))
    lines = {line["step"]: line for line in read_metrics(run.folder)}
    lowest, _ = lowest_loss([*lines.values()])
    names = ["loss"] if config.validation is None else ["loss", "validation_loss"]
    rows = [["", "step", *names]]
    first = min(lines) if len(lines) > 1 else None
    for label, chosen in (("first", first), ("lowest held-out", lowest), ("last", max(lines, default=None))):
        if chosen is not None:
            losses = (lines[chosen].get(name, math.nan) for name in names)
            rows.append([label, f"{chosen:,}", *(f"{loss:.4g}" for loss in losses)])
    ended = f"{'stopped at ' * (step < config.training.steps)}step {step:,} of {config.training.steps:,}"
    text = [f"{config.backbone.name} on {config.dataset}, {ended}, in {folder}"]
    text += align_columns(rows)
    best = folder if lowest in (None, step) else folder / "checkpoints" / BEST
    commands: list[tuple[object, ...]] = [("data", "split", config.dataset)]
    if config.validation is not None:
        text.append(str(score_run(run.agent, config.validation)))
        options = "--validation", config.validation, "--backbones", "mingru,mlp"
        commands = [("evaluate", best, "--plot", "actions.png"), ("compare", config.dataset, *options)]
    elif run.agent.provenance.environment_id is not None:
        commands = [("evaluate", folder)]
    commands.append(("export", best))
    return "\n".join([*text, "next:", *(f"  {shell_join('decision-rnn', *words)}" for words in commands)])
