"""`decision-rnn play`: watch an agent in its environment."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from decision_rnn.cli.parser import CommandParser
from decision_rnn.errors import InputError
from decision_rnn.parsing import COMMAND_LINE, split_names

if TYPE_CHECKING:
    from decision_rnn.checkpoint import TrainedAgent
    from decision_rnn.evaluation.video import Moment


def run(arguments: Sequence[str]) -> None:
    """Play episodes and print their returns and scores; raises InputError for invalid input."""
    command = parser().read(arguments)
    if command.episodes < 1:
        raise InputError(f"{COMMAND_LINE}: --episodes is {command.episodes}: it must be at least 1")
    if command.seed is not None and command.seed < 0:
        raise InputError(f"{COMMAND_LINE}: --seed is {command.seed}: it must be at least 0")
    if command.video is not None and command.video.suffix != ".mp4":
        raise InputError(f"{COMMAND_LINE}: --video is {command.video}: name an .mp4, such as --video episode.mp4")
    if command.video is None and not has_screen():
        raise InputError("there is no screen to open a window on: write a video instead with --video episode.mp4")
    from decision_rnn.checkpoint import load_agent  # here: slow, and not needed for `--help`
    from decision_rnn.data.environments import check_environment
    from decision_rnn.deploy.hub import find_agent
    from decision_rnn.evaluation.actor import describe_state, window_of
    from decision_rnn.evaluation.targets import check_conditioned, default_return
    from decision_rnn.evaluation.video import film

    folder = find_agent(command.agent)
    trained = load_agent(folder)
    spec, settings = trained.provenance, trained.config.evaluation
    check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
    asked = command.target_returns
    if asked is None:
        asked = default_return(trained.config, trained.provenance)
    else:
        check_conditioned(trained.config, command.agent)
    seed = settings.seed if command.seed is None else command.seed
    acts = describe_state(window_of(settings))
    print(f"{trained.config.backbone.name} of {spec.name} in {spec.environment_id}, {acts}", flush=True)
    if command.video is None:
        _in_window(trained, asked, command.episodes, seed)
    else:
        plugins = split_names(command.plugins)
        ends = film(folder, command.video, asked, command.episodes, seed, plugins=plugins)
        for number, end in enumerate(ends):
            _tell(trained, asked, seed + number, end)
        print(f"written to {command.video}")


def parser() -> CommandParser:
    """The parser of the command."""
    parser = CommandParser("decision-rnn play")
    parser.add_argument("agent", type=str, help="a run's or packaged agent's folder, pretrained/NAME, or org/name")
    parser.add_argument("--video", type=Path | None, help="the mp4 to write (default: play in a window)")
    parser.add_argument(
        "--target_returns", type=float | None, help="target return (default: the first of the run's evaluation)"
    )
    parser.add_argument("--episodes", type=int, default=1, help="number of episodes")
    parser.add_argument("--seed", type=int | None, help="seed of the first episode (default: the evaluation's)")
    return parser


def has_screen() -> bool:
    """Whether a window can be opened here."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _in_window(trained: "TrainedAgent", asked: float | None, episodes: int, seed: int) -> None:
    from decision_rnn.evaluation.actor import actor_of
    from decision_rnn.evaluation.video import play, watched_environment

    actor = actor_of(trained.agent, trained.config.evaluation)
    environment = watched_environment(trained.provenance.environment_id)
    begun = False
    try:
        for number in range(episodes):
            for moment in play(actor, environment, asked, seed + number):
                begun = True
                if moment.ended:
                    _tell(trained, asked, seed + number, moment)
    except Exception as error:  # rendering can raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        what = "the window is gone" if begun else "no window can be opened here"
        raise InputError(f"{what} ({reason:.200}): to write a video instead, use --video episode.mp4") from None
    finally:
        environment.close()


def _tell(trained: "TrainedAgent", asked: float | None, seed: int, end: "Moment") -> None:
    from decision_rnn.evaluation.report import format_return

    what = "" if asked is None else f"target {asked:g}, "
    score = float(trained.provenance.normalised(end.earned))
    earned = format_return(end.earned, trained.provenance, least=1)
    print(f"seed {seed}: {what}return {earned}, normalised score {score:.1f}, {end.steps} steps", flush=True)
