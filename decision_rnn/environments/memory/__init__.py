"""Tasks where memory decides: T-Maze, POPGym's recall and position-only control, and Dark Key-to-Door.

Importing this registers `decision_rnn/TMaze-90-v0`, of 9, 30, 90, 270 and 900 steps, and
`decision_rnn/DarkKeyToDoor-v0` with Gymnasium. T-Mazes of any other length, `decision_rnn/RepeatPrevious-4-v0` of any k
and POPGym's own ids, for which its package must be installed, are registered when they are first asked for.
"""

import importlib
import re

import gymnasium

from decision_rnn.environments.registry import environment_family, registered

TMAZE_STEPS = (9, 30, 90, 270, 900)
"""The lengths of T-Maze that are listed and registered on import; all others exist too."""


def tmaze_id(steps: int) -> str:
    """The Gymnasium id of the T-Maze whose episodes have at most `steps` steps."""
    return f"decision_rnn/TMaze-{steps}-v0"


def previous_id(k: int) -> str:
    """The Gymnasium id of POPGym's RepeatPrevious with this k."""
    return f"decision_rnn/RepeatPrevious-{k}-v0"


@environment_family(r"decision_rnn/TMaze-([3-9]|[1-9][0-9]{1,8})-v0")
def register_tmaze(match: re.Match[str]) -> None:
    """Register a T-Maze."""
    entry = "decision_rnn.environments.memory.tmaze:TMaze"
    gymnasium.register(match[0], entry, kwargs={"steps": int(match[1])}, max_episode_steps=int(match[1]))


@environment_family(r"decision_rnn/RepeatPrevious-([1-9][0-9]{0,3})-v0")
def register_previous(match: re.Match[str]) -> None:
    """Register RepeatPrevious, dealt from one deck of 52 cards and one more for every 32 of its k, as at POPGym's
    levels."""
    importlib.import_module("popgym")
    settings = {"k": int(match[1]), "num_decks": 1 + int(match[1]) // 32}
    gymnasium.register(match[0], "popgym.envs.repeat_previous:RepeatPrevious", kwargs=settings)


@environment_family(r"popgym-\w+-v0")
def register_popgym(match: re.Match[str]) -> None:
    """Import POPGym, which registers its environments."""
    importlib.import_module("popgym")


@environment_family(r"decision_rnn/DarkKeyToDoor-v0")
def register_dark_key_to_door(match: re.Match[str]) -> None:
    """Register Dark Key-to-Door, of 400 inner episodes of 50 steps."""
    gymnasium.register(
        match[0], "decision_rnn.environments.memory.dark_key_to_door:DarkKeyToDoor", max_episode_steps=20_000
    )


for _id in (*map(tmaze_id, TMAZE_STEPS), "decision_rnn/DarkKeyToDoor-v0"):
    registered(_id)
