"""What `train` prints after the last step of an agent that it does not play."""

import math
import os
from pathlib import Path

from decision_rnn.evaluation.held_out import score_run
from decision_rnn.runs.folder import BEST, lowest_loss, read_metrics
from decision_rnn.training.run import Run
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import aligned, typed


def summarise(run: Run) -> str:
    """The losses of a run, first, lowest held-out and last, the score of its last agent on the held-out episodes beside
    references, and commands to go on with."""
    config, step, folder = run.config, run.agent.step, Path(os.path.relpath(run.folder))
    lines = {line["step"]: line for line in read_metrics(run.folder)}
    lowest, _ = lowest_loss([*lines.values()])
    names = ["loss"] if config.validation is None else ["loss", "validation_loss"]
    rows = [["", "step", *names]]
    for label, chosen in (("first", min(lines)), ("lowest held-out", lowest), ("last", max(lines))):
        if chosen is not None:
            losses = (lines[chosen].get(name, math.nan) for name in names)
            rows.append([label, f"{chosen:,}", *(f"{loss:.4g}" for loss in losses)])
    ended = f"{'stopped at ' * (step < config.training.steps)}step {step:,} of {config.training.steps:,}"
    text = [f"{config.backbone.name} on {config.dataset}, {ended}, in {folder}"]
    text += aligned(rows)
    best = folder if lowest in (None, step) else folder / "checkpoints" / BEST
    commands: list[tuple[object, ...]] = [("data", "split", config.dataset)]
    if config.validation is not None:
        try:
            text.append(str(score_run(run.agent, config.validation)))
        except InputError as error:  # the episodes have gone while it was trained
            text.append(f"there is no held-out score: {error}")
        options = "--validation", config.validation, "--backbones", "mingru,mlp"
        commands = [("evaluate", best, "--plot", "actions.png"), ("compare", config.dataset, *options)]
    elif run.agent.provenance.environment_id is not None:
        commands = [("evaluate", folder)]
    commands.append(("export", best))
    return "\n".join([*text, "next:", *(f"  {typed('decision-rnn', *words)}" for words in commands)])
