"""What `train` prints after the last step of an agent that it does not play."""

import math
from collections.abc import Iterator
from pathlib import Path

from decision_rnn.evaluation.held_out import score_run
from decision_rnn.runs.folder import BEST, LowestLoss, read_metrics
from decision_rnn.training.run import Run
from decision_rnn.utils.messages import aligned, path_from_here, typed


def summarise(run: Run) -> str:
    """The losses of a run, first, lowest held-out and last, the score of its last agent on the held-out episodes beside
    references, and commands to go on with."""
    config, lines, lowest, folder = run.config, read_metrics(run.folder), LowestLoss(), path_from_here(run.folder)
    for line in lines:
        lowest.update(line)
    steps = {"first": lines[0]["step"], "lowest held-out": lowest.step, "last": lines[-1]["step"]}
    names = ["loss"] if config.validation is None else ["loss", "validation_loss"]
    rows = [["", "step", "loss", "held-out loss"][: len(names) + 2]]
    for line in lines:
        if label := ", ".join(name for name, step in steps.items() if step == line["step"]):
            rows.append([label, f"{line['step']:,}", *(f"{line.get(name, math.nan):.4g}" for name in names)])
    early = f" of {config.training.steps:,} (stopped early)" if lowest.stops(config) else ""
    title = f"{config.backbone.name} on {config.dataset}, step {run.agent.step:,}{early}, in {folder}"
    score = [] if config.validation is None else [str(score_run(run.agent, config.validation))]
    best = folder if lowest.step in (None, run.agent.step) else folder / "checkpoints" / BEST
    return "\n".join([title, *aligned(rows), *score, "next:", *(f"  {line}" for line in commands(run, folder, best))])


def commands(run: Run, folder: Path, best: Path) -> Iterator[str]:
    """What to type next, with the folders of a run and of its best checkpoint."""
    config = run.config
    if run.agent.provenance.environment_id or config.evaluation.environment_id:
        yield typed("decision-rnn", "evaluate", folder)
    elif config.validation is not None:
        yield typed("decision-rnn", "evaluate", best, "--plot", "actions.png")
        options = "--validation", config.validation, "--backbones", "mingru,mlp"
        yield typed("decision-rnn", "compare", config.dataset, *options)
    else:
        yield typed("decision-rnn", "data", "split", config.dataset)
    yield typed("decision-rnn", "export", best)
