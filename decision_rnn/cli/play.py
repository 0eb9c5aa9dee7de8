"""`decision-rnn play`: watch an agent in its environment."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decision_rnn.cli.parser import CommandParser
from decision_rnn.training.agents import find_subject, load_subject
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.messages import counted
from decision_rnn.utils.parsing import (
    COMMAND_LINE,
    NonNegativeInt,
    PositiveInt,
    TargetReturn,
    format_target,
    split_names,
)

if TYPE_CHECKING:
    from decision_rnn.evaluation.evaluate import EvaluatedPolicy
    from decision_rnn.evaluation.video import Moment
    from decision_rnn.training.checkpoint import TrainedAgent


def run(arguments: Sequence[str]) -> None:
    """Play episodes and print their returns and scores; raises InputError for invalid input."""
    command = parser().read(arguments)
    if command.browser:
        return _in_browser(command)
    if command.output is not None:
        raise InputError(f"{COMMAND_LINE}: --output is of --browser: add it, or name the --video to write")
    if command.others:
        raise InputError(f"{COMMAND_LINE}: only --browser shows several agents: add it, or name one agent")
    if command.video is not None and command.video.suffix != ".mp4":
        raise InputError(f"{COMMAND_LINE}: --video is {command.video}: name an .mp4, such as --video episode.mp4")
    folder = find_subject(command.agent)
    from decision_rnn.evaluation.actor import describe_acting, window_of  # here: slow, and not needed for `--help`
    from decision_rnn.evaluation.evaluate import evaluation_environment
    from decision_rnn.evaluation.report import format_return
    from decision_rnn.evaluation.targets import check_conditioned, default_return
    from decision_rnn.evaluation.video import film

    trained, _ = load_subject(folder)
    spec, settings, asked = trained.provenance, trained.config.evaluation, command.target_returns
    environment_id = evaluation_environment(settings, spec)  # first: without one, no --video helps
    if command.video is None and not has_screen():
        raise InputError(
            "there is no screen to open a window on: write a video instead with --video episode.mp4, or serve a page "
            "with --browser"
        )
    if asked is None:
        asked = default_return(trained.config, spec)
    else:
        check_conditioned(trained.config, command.agent)
    seed = settings.seed if command.seed is None else command.seed
    acts = describe_acting(window_of(settings), settings.actions)
    print(f"{trained.config.backbone.name} of {spec.name} in {environment_id}, {acts}", flush=True)
    if command.video is None:
        ends = _in_window(trained, asked, command.episodes, seed)
    else:
        ends = iter(film(folder, command.video, asked, command.episodes, seed, plugins=split_names(command.plugins)))
    for number, end in enumerate(ends):
        target = "" if asked is None else f"target {format_target(asked)}, "
        earned, score = format_return(end.earned, spec, least=1), float(spec.normalised(end.earned))
        text = (
            f"seed {seed + number}: {target}return {earned}, normalised score {score:.1f}, {counted(end.steps, 'step')}"
        )
        print(text, flush=True)
    if command.video is not None:
        print(f"written to {command.video}")


def parser() -> CommandParser:
    parser = CommandParser("decision-rnn play")
    parser.add_argument("agent", help="a run's or packaged agent's folder, pretrained/NAME, org/name, or policy.onnx")
    parser.add_argument("others", nargs="*", default=[], help="with --browser: further agents, shown beside the first")
    parser.add_argument("--browser", action="store_true", help="serve a page to play with in a browser, until Ctrl-C")
    parser.add_argument(
        "--output", type=Path, help="with --browser: only write the page, as this folder, for a static host"
    )
    parser.add_argument("--video", type=Path, help="the mp4 to write (default: play in a window)")
    text = "target return (default: the first of the run's evaluation)"
    parser.add_argument("--target_returns", type=TargetReturn, help=text)
    parser.add_argument("--episodes", type=PositiveInt, default=1, help="number of episodes")
    parser.add_argument("--seed", type=NonNegativeInt, help="seed of the first episode (default: the evaluation's)")
    return parser


def _in_browser(command: Any) -> None:
    """Write a page of the agents, and serve it unless its folder is named."""
    if command.video is not None:
        raise InputError(f"{COMMAND_LINE}: --video and --browser exclude each other: choose one")
    from decision_rnn.deploy.browser.page import Subject, server, write_page
    from decision_rnn.evaluation.targets import check_conditioned

    subjects = []
    for name in (command.agent, *command.others):
        file = find_subject(name)
        subjects.append(Subject(name, load_subject(file)[0], file))
    if command.target_returns is not None:
        check_conditioned(subjects[0].trained.config, command.agent)
    with tempfile.TemporaryDirectory() as temporary:
        folder = command.output or Path(temporary) / "page"
        write_page(folder, subjects, command.target_returns, command.seed)
        if command.output is not None:
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            print(f"written to {folder}: {size:,} bytes; a static host serves it as it is")
            return
        with server(folder) as serving, contextlib.suppress(KeyboardInterrupt):
            print(f"open http://127.0.0.1:{serving.server_port}/ in a browser; Ctrl-C ends this", flush=True)
            serving.serve_forever()


def has_screen() -> bool:
    """Whether a window can be opened here."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _in_window(
    trained: "TrainedAgent | EvaluatedPolicy", asked: float | None, episodes: int, seed: int
) -> Iterator["Moment"]:
    """Play episodes on the screen; yields the last moment of each."""
    from decision_rnn.evaluation.actor import actor_of
    from decision_rnn.evaluation.evaluate import EvaluatedPolicy, step_limits
    from decision_rnn.evaluation.video import play, watched_environment

    settings = trained.config.evaluation
    actor = trained.actor if isinstance(trained, EvaluatedPolicy) else actor_of(trained.agent, settings)
    limits = step_limits(settings, trained.provenance)
    environment = watched_environment(settings.environment_id or trained.provenance.environment_id)
    try:
        for number in range(episodes):
            *_, end = play(actor, environment, asked, seed + number, *limits)
            yield end
    except Exception as error:  # rendering can raise anything
        raise InputError(
            f"no window can be opened here, or it is gone ({one_line(error)}): to write a video instead, use --video "
            "episode.mp4"
        ) from None
    finally:
        environment.close()
