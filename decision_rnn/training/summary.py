"""What `train` prints after the last step of an agent that it does not play."""

import math
import os
from pathlib import Path

from decision_rnn.evaluation.held_out import score_run
from decision_rnn.runs.folder import BEST, lowest_loss, read_metrics
from decision_rnn.training.run import Run
from decision_rnn.utils.messages import aligned, typed


def summarise(run: Run) -> str:
    """The losses of a run, first, lowest held-out and last, the score of its last agent on the held-out episodes beside
    references, and commands to go on with."""
    config, lines, folder = run.config, read_metrics(run.folder), Path(os.path.relpath(run.folder))
    lowest, _ = lowest_loss(lines)
    names = ["loss"] if config.validation is None else ["loss", "validation_loss"]
    chosen = {"first": lines[0]["step"], "lowest held-out": lowest, "last": lines[-1]["step"]}
    rows = [["", "step", *names]]
    for label, line in ((label, line) for label, step in chosen.items() for line in lines if line["step"] == step):
        rows.append([label, f"{line['step']:,}", *(f"{line.get(name, math.nan):.4g}" for name in names)])
    commands: list[tuple[object, ...]] = [("data", "split", config.dataset)]
    best = folder if lowest in (None, run.agent.step) else folder / "checkpoints" / BEST
    if config.validation is not None:
        options = "--validation", config.validation, "--backbones", "mingru,mlp"
        commands = [("evaluate", best, "--plot", "actions.png"), ("compare", config.dataset, *options)]
    elif run.agent.provenance.environment_id is not None:
        commands = [("evaluate", folder)]
    title = (
        f"{config.backbone.name} on {config.dataset}, step {run.agent.step:,} of {config.training.steps:,}, in {folder}"
    )
    score = [] if config.validation is None else [str(score_run(run.agent, config.validation))]
    next_steps = [f"  {typed('decision-rnn', *words)}" for words in [*commands, ("export", best)]]
    return "\n".join([title, *aligned(rows), *score, "next:", *next_steps])
