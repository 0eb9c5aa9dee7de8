"""Tasks where memory decides: T-Maze, POPGym's recall and position-only control, and Dark Key-to-Door.

Importing this registers `decision_rnn/TMaze-90-v0`, of 9, 30, 90, 270 and 900 steps, and
`decision_rnn/DarkKeyToDoor-v0` with Gymnasium. T-Mazes of any other length, `decision_rnn/RepeatPrevious-4-v0` of any k
and POPGym's own ids, for which its package must be installed, are registered when they are first asked for.
"""

import importlib
import re

import gymnasium

TMAZE_STEPS = (9, 30, 90, 270, 900)
"""The lengths of T-Maze that are listed and registered on import; all others exist too."""
TMAZE = re.compile(r"decision_rnn/TMaze-([3-9]|[1-9][0-9]{1,8})-v0")
PREVIOUS = re.compile(r"decision_rnn/RepeatPrevious-([1-9][0-9]{0,3})-v0")


def register(environment_id: str) -> None:
    """Register the environment if it is one of these tasks; ModuleNotFoundError if it needs POPGym without `popgym`."""
    if match := TMAZE.fullmatch(environment_id):
        steps = int(match[1])
        entry = "decision_rnn.environments.memory.tmaze:TMaze"
        gymnasium.register(environment_id, entry, kwargs={"steps": steps}, max_episode_steps=steps)
    elif match := PREVIOUS.fullmatch(environment_id):
        importlib.import_module("popgym")
        k = int(match[1])  # dealt from one deck of 52 cards and one more for every 32 of k, as at POPGym's levels
        entry = "popgym.envs.repeat_previous:RepeatPrevious"
        gymnasium.register(environment_id, entry, kwargs={"k": k, "num_decks": 1 + k // 32})
    elif environment_id.startswith("popgym-"):
        importlib.import_module("popgym")  # registers its environments


for _steps in TMAZE_STEPS:
    register(f"decision_rnn/TMaze-{_steps}-v0")
gymnasium.register(
    "decision_rnn/DarkKeyToDoor-v0",
    "decision_rnn.environments.memory.dark_key_to_door:DarkKeyToDoor",
    max_episode_steps=20_000,
)
