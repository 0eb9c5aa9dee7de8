"""A tiny comparison: its keys, its episodes, and an executor in the tests' process."""

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn import Episode
from decision_rnn.cli.main import main
from decision_rnn.comparison.executors import LOG, Task


class Inline:
    """Trains runs in this process, one after the other."""

    jobs = 1

    def __init__(self) -> None:
        self.started: list[str] = []

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[int, str | None], None, None]:
        for number, task in enumerate(tasks):
            self.started.append(task.folder.name)
            try:
                words = [*task.words, "--processes", "1"]
                task.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                yield number, f"cannot write {task.folder}: {error.strerror}"
                continue
            with (
                (task.folder / LOG).open("a") as log,
                contextlib.redirect_stdout(log),
                contextlib.redirect_stderr(log),
            ):
                code = main(words)
            yield number, task.fault() if code else None


def small(output: Path, **keys: Any) -> dict[str, Any]:
    """The keys of a comparison on local/mine: `narrow` of width 16 with one seed, four steps, short episodes, and no
    evaluation of checkpoints; other keys take the place of these."""
    return {
        "datasets": "local/mine",
        "variants": {"narrow": {}},
        "controls": "none",
        "seeds": 1,
        "output": str(output),
        "checkpoint_episodes": 0,
        "backbone": "mingru",
        "backbone.width": 16,
        "backbone.layers": 1,
        "training.steps": 4,
        "training.checkpoint_every": 2,
        "training.context": 4,
        "evaluation.episodes": 1,
        "evaluation.max_episode_steps": 20,
        **keys,
    }


def pendulum_episodes(seed: int) -> list[Episode]:
    generator = np.random.default_rng(seed)

    def episode() -> Episode:
        actions, rewards = generator.uniform(-1, 1, (8, 1)), generator.normal(size=8)
        return Episode(generator.normal(size=(9, 3)), actions, rewards, False, True)

    return [episode() for _ in range(5)]
