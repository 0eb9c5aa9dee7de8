"""Tasks where memory decides: made here on first use by scripted experts, without a network."""

import re
from dataclasses import dataclass
from pathlib import Path

from decision_rnn.data.collect import open_or_collect
from decision_rnn.data.sources.contract import Source, register_source
from decision_rnn.data.spec import DatasetSpec, spec_of_store
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.memory import TMAZE_STEPS
from decision_rnn.environments.memory.dark_key_to_door import DarkKeyToDoorRecipe
from decision_rnn.environments.memory.popgym import POPGymRecipe
from decision_rnn.environments.memory.tmaze import TMazeRecipe
from decision_rnn.environments.recipe import Recipe

TMAZE_NAME = re.compile(r"memory/tmaze-([3-9]|[1-9][0-9]{1,8})")
PREVIOUS_NAME = re.compile(r"memory/repeat-previous-([1-9][0-9]{0,3})")

RECALL, CARTPOLE, PENDULUM = (-0.5, 1.0), (0.111, 1.0), (0.246, 0.915)
HIGHEST, OPTIMUM = "the highest", "an optimal controller by dynamic programming"
EXPERT = "that of the expert, which is not the highest"
POPGYM: dict[str, tuple[str, tuple[tuple[float, float], ...], str]] = {
    "repeat-first": ("RepeatFirst", (RECALL,) * 3, HIGHEST),
    "repeat-previous": ("RepeatPrevious", (RECALL,) * 3, HIGHEST),
    "autoencode": ("Autoencode", (RECALL,) * 3, HIGHEST),
    "count-recall": ("CountRecall", ((-0.926, 1.0), (-0.926, 1.0), (-0.882, 1.0)), HIGHEST),
    "higher-lower": ("HigherLower", ((0.0, 0.529), (0.0, 0.516), (0.0, 0.512)), "that of counting the cards"),
    "battleship": ("Battleship", ((-0.44, 0.44), (-0.43, 0.5), (-0.41, 0.53)), EXPERT),
    "minesweeper": ("MineSweeper", ((-0.24, 0.73), (-0.4, 0.34), (-0.44, 0.31)), EXPERT),
    "concentration": ("Concentration", ((-0.19, 0.81), (-0.18, 0.81), (-0.83, 0.7)), EXPERT),
    "multiarmed-bandit": ("MultiarmedBandit", ((0.0, 0.72), (0.0, 0.81), (0.0, 0.83)), EXPERT),
    "position-only-cartpole": ("PositionOnlyCartPole", (CARTPOLE, (0.0555, 1.0), (0.037, 1.0)), HIGHEST),
    "noisy-position-only-cartpole": ("NoisyPositionOnlyCartPole", (CARTPOLE,) * 3, HIGHEST),
    "velocity-only-cartpole": ("VelocityOnlyCartpole", (CARTPOLE, (0.0555, 1.0), (0.037, 1.0)), HIGHEST),
    "position-only-pendulum": ("PositionOnlyPendulum", (PENDULUM, (0.246, 0.887), (0.246, 0.83)), OPTIMUM),
    "noisy-position-only-pendulum": ("NoisyPositionOnlyPendulum", (PENDULUM,) * 3, OPTIMUM),
}
"""POPGym's tasks by name: task, the returns that score 0 and 100 at each level, and what the latter is."""


@dataclass(frozen=True)
class MemoryDataset:
    """A dataset of `memory/`: its recipe, the returns that score 0 and 100 (`references`), and what scores may be
    compared with."""

    recipe: Recipe
    references: tuple[float, float]
    target_returns: tuple[float, ...]
    comparable: str
    requirements: tuple[str, ...] = ()


def _tmaze(steps: int) -> MemoryDataset:
    return MemoryDataset(
        TMazeRecipe(name=f"memory/tmaze-{steps}", environment_id=f"decision_rnn/TMaze-{steps}-v0", length=steps),
        (0.0, 1.0),
        (1.0, 0.0),
        "a return is 1 for the hinted turn and 0 without, so that a score is the success rate in percent; compare with "
        f"papers on RATE's T-Maze of {steps} steps, whose data have winning episodes only",
    )


def _popgym(kind: str, suffix: object, environment_id: str, level: int = 0) -> MemoryDataset:
    task, references, best = POPGYM[kind]
    return MemoryDataset(
        POPGymRecipe(name=f"memory/{kind}-{suffix}", environment_id=environment_id, task=task),
        references[level],
        references[level][1:],
        f"the reference scores are the mean return of random actions and {best}; published returns on POPGym "
        "are of agents trained online: for orientation only",
        requirements=("popgym",),
    )


_DATASETS = (
    *map(_tmaze, TMAZE_STEPS),
    *(
        _popgym(kind, level, f"popgym-{task}{level.capitalize()}-v0", number)
        for kind, (task, *_) in POPGYM.items()
        for number, level in enumerate(("easy", "medium", "hard"))
    ),
    MemoryDataset(
        DarkKeyToDoorRecipe(name="memory/dark-key-to-door", environment_id="decision_rnn/DarkKeyToDoor-v0"),
        (0.25, 2.0),
        (2.0,),
        "a return is the mean of a history's episodes; the reference scores are those of random actions and of knowing "
        "the task: compare with no paper's, whose tasks and histories differ",
    ),
)
DATASETS = {dataset.recipe.name: dataset for dataset in _DATASETS}
"""The datasets that are listed; a T-Maze may have any other number of steps, RepeatPrevious any k."""


def memory_dataset(name: str) -> MemoryDataset:
    """The dataset of a name; KeyError if there is none."""
    if name not in DATASETS and (match := TMAZE_NAME.fullmatch(name)):
        return _tmaze(int(match[1]))
    if name not in DATASETS and (match := PREVIOUS_NAME.fullmatch(name)):
        return _popgym("repeat-previous", match[1], f"decision_rnn/RepeatPrevious-{match[1]}-v0")
    return DATASETS[name]


@register_source
class MemorySource(Source):
    """The datasets of `DATASETS`, T-Mazes of any length and RepeatPrevious of any k."""

    prefix = "memory"
    pattern = "memory/TASK, memory/tmaze-STEPS or memory/repeat-previous-K"

    def names(self) -> list[str]:
        return list(DATASETS)

    def check(self, name: str) -> None:
        if not (TMAZE_NAME.fullmatch(name) or PREVIOUS_NAME.fullmatch(name)):
            super().check(name)

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        dataset = memory_dataset(name)
        low, high = dataset.references
        return spec_of_store(
            name,
            store,
            reference_min=low,
            reference_max=high,
            score_meaning=f"0 is a return of {low:g}, 100 one of {high:g}",
            target_returns=dataset.target_returns,
            return_scale=1.0,
            comparable=dataset.comparable,
            requirements=dataset.requirements,
        )

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        dataset = memory_dataset(name)
        return open_or_collect(dataset.recipe, dataset.requirements)
