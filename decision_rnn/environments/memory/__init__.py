"""Tasks where memory decides: their environments, scripted experts and recipes.

Importing this registers `decision_rnn/TMaze-90-v0`, of 9, 30, 90, 270 and 900 steps, and
`decision_rnn/DarkKeyToDoor-v0`; `register` a T-Maze of any other length, or POPGym's RepeatPrevious of any k.
"""

import importlib
import re

import gymnasium

TMAZE = re.compile(r"decision_rnn/TMaze-([1-9][0-9]{0,8})-v0")
TMAZE_STEPS = (9, 30, 90, 270, 900)
"""The lengths of T-Maze that are listed and registered; all others exist too."""
PREVIOUS = re.compile(r"decision_rnn/RepeatPrevious-([1-9][0-9]{0,3})-v0")
POPGYM = re.compile(r"popgym-\w+-v0")


def tmaze_id(steps: int) -> str:
    """The Gymnasium id of the T-Maze whose episodes have at most `steps` steps."""
    return f"decision_rnn/TMaze-{steps}-v0"


def previous_id(k: int) -> str:
    """The Gymnasium id of POPGym's RepeatPrevious with this k."""
    return f"decision_rnn/RepeatPrevious-{k}-v0"


def register(environment_id: str) -> None:
    """Register an environment if it is a T-Maze of any length, or one of POPGym's, whose package this imports.

    RepeatPrevious is dealt from one deck of 52 cards, and one more for every 32 of its k, as at POPGym's levels.

    Raises:
        ModuleNotFoundError: If it is one of POPGym's, and the package is not installed.
    """
    if environment_id in gymnasium.registry:
        return
    if (maze := TMAZE.fullmatch(environment_id)) and int(maze[1]) >= 3:
        steps = int(maze[1])
        entry = "decision_rnn.environments.memory.tmaze:TMaze"
        gymnasium.register(environment_id, entry, kwargs={"steps": steps}, max_episode_steps=steps)
    elif previous := PREVIOUS.fullmatch(environment_id):
        importlib.import_module("popgym")
        settings = {"k": int(previous[1]), "num_decks": 1 + int(previous[1]) // 32}
        gymnasium.register(environment_id, "popgym.envs.repeat_previous:RepeatPrevious", kwargs=settings)
    elif POPGYM.fullmatch(environment_id):
        importlib.import_module("popgym")  # registers them


for _steps in TMAZE_STEPS:
    register(tmaze_id(_steps))
gymnasium.register(
    "decision_rnn/DarkKeyToDoor-v0",
    "decision_rnn.environments.memory.dark_key_to_door:DarkKeyToDoor",
    max_episode_steps=20_000,  # 400 inner episodes of 50 steps
)
