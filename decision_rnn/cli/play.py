"""`decision-rnn play`: watch an agent in its environment."""

import contextlib
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from decision_rnn.cli.parser import CommandParser, parse_as
from decision_rnn.deploy.browser.page import Subject, server, write_page
from decision_rnn.evaluation.actor import EvaluatedPolicy, actor_of, describe_acting, window_of
from decision_rnn.evaluation.evaluate import evaluation_environment, step_limits
from decision_rnn.evaluation.subjects import find_subject, load_subject
from decision_rnn.evaluation.tables import format_return
from decision_rnn.evaluation.targets import check_conditioned, default_return
from decision_rnn.evaluation.video import Moment, film, play, watched_environment
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.messages import counted
from decision_rnn.utils.parsing import NonNegativeInt, PositiveInt, TargetReturn, format_target


def run(arguments: Sequence[str]) -> None:
    """Play episodes and print their returns and scores; raises InputError for invalid input."""
    command = parser().read(arguments)
    if command.browser or command.output is not None or len(command.agents) > 1:
        return _in_browser(command)
    if command.video is not None and command.video.suffix != ".mp4":
        raise InputError(f"--video {command.video} must end in .mp4")
    (name,) = command.agents
    trained, _ = load_subject(name)
    spec, settings, target = trained.provenance, trained.config.evaluation, command.target_return
    environment_id = evaluation_environment(settings, spec)
    if command.video is None and not has_screen():
        raise InputError("there is no screen to open a window on: use --video episode.mp4 or --browser")
    if target is None:
        target = default_return(trained.config, spec)
    else:
        check_conditioned(trained.config, name)
    seed = settings.seed if command.seed is None else command.seed
    acts = describe_acting(window_of(settings), settings.actions)
    print(f"{trained.config.backbone.name} of {spec.name} in {environment_id}, {acts}", flush=True)
    if command.video is None:
        ends = _in_window(trained, target, command.episodes, seed)
    else:
        ends = iter(film(trained, command.video, target, command.episodes, seed))
    for number, end in enumerate(ends):
        prefix = "" if target is None else f"target {format_target(target)}, "
        earned, score = format_return(end.earned, spec, least=1), float(spec.normalised(end.earned))
        steps = counted(end.steps, "step")
        print(f"seed {seed + number}: {prefix}return {earned}, normalised score {score:.1f}, {steps}", flush=True)
    if command.video is not None:
        print(f"written to {command.video}")


def parser() -> CommandParser:
    parser = CommandParser("decision-rnn play", "Watch an agent in a window, as a video or in a browser.")
    text = (
        "a run's or packaged agent's folder, pretrained/NAME, org/name, or policy.onnx; several are shown in a browser"
    )
    parser.add_argument("agents", nargs="+", metavar="AGENT", help=text)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--video", type=Path, help="the mp4 to write (default: play in a window)")
    place.add_argument("--browser", action="store_true", help="serve a page to play with in a browser, until Ctrl-C")
    text = "only write the page for a browser, as this folder, for a static host"
    parser.add_argument("--output", type=Path, help=text)
    text = "target return (default: the first of the run's evaluation)"
    parser.add_argument("--target_return", type=parse_as(TargetReturn), help=text)
    parser.add_argument("--episodes", type=parse_as(PositiveInt), default=1, help="number of episodes")
    text = "seed of the first episode (default: the evaluation's)"
    parser.add_argument("--seed", type=parse_as(NonNegativeInt), help=text)
    return parser


def _in_browser(command: Namespace) -> None:
    """Write a page of the agents, and serve it unless its folder is named."""
    files = [find_subject(name) for name in command.agents]
    subjects = [Subject(name, load_subject(file)[0], file) for name, file in zip(command.agents, files, strict=True)]
    if command.target_return is not None:
        check_conditioned(subjects[0].trained.config, command.agents[0])
    with tempfile.TemporaryDirectory() as temporary:
        folder = command.output or Path(temporary) / "page"
        write_page(folder, subjects, command.target_return, command.seed)
        if command.output is not None:
            print(f"written to {folder}")
            return
        with server(folder) as serving, contextlib.suppress(KeyboardInterrupt):
            print(f"open http://127.0.0.1:{serving.server_port}/ in a browser; Ctrl-C ends this", flush=True)
            serving.serve_forever()


def has_screen() -> bool:
    """Whether a window can be opened here."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _in_window(
    trained: TrainedAgent | EvaluatedPolicy, target: float | None, episodes: int, seed: int
) -> Iterator[Moment]:
    """Play episodes on the screen; yields the last moment of each."""
    settings = trained.config.evaluation
    actor = trained.actor if isinstance(trained, EvaluatedPolicy) else actor_of(trained.agent, settings)
    limits = step_limits(settings, trained.provenance)
    environment = watched_environment(settings.environment_id or trained.provenance.environment_id)
    with contextlib.closing(environment):
        try:
            for number in range(episodes):
                *_, end = play(actor, environment, target, seed + number, *limits)
                yield end
        except Exception as error:  # rendering can raise anything
            raise InputError(f"no window can be opened here ({one_line(error)}): use --video episode.mp4") from None
