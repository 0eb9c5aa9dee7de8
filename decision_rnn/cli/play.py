"""`decision-rnn play`: watch an agent in its environment."""

import contextlib
import tempfile
from argparse import Namespace
from pathlib import Path

from decision_rnn.cli.parser import CommandParser, parse_as
from decision_rnn.deploy.browser import Subject, server, write_page
from decision_rnn.deploy.policies import load_subject
from decision_rnn.evaluation.evaluate import evaluation_environment
from decision_rnn.evaluation.results import describe_acting, format_return
from decision_rnn.evaluation.targets import check_target, default_return
from decision_rnn.evaluation.video import choose_backend, film, watch
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import pluralize
from decision_rnn.utils.parsing import NonNegativeInt, PositiveInt, TargetReturn, format_target


def add_arguments(parser: CommandParser) -> None:
    text = "a run's or packaged agent's folder, pretrained/NAME, org/name, or policy.onnx; several only in a browser"
    parser.add_argument("agents", nargs="+", metavar="AGENT", help=text)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--video", type=Path, help="the mp4 to write (default: play in a window)")
    place.add_argument("--browser", action="store_true", help="serve a page to play with in a browser, until Ctrl-C")
    text = "only write the page for a browser, as this folder, for a static host"
    parser.add_argument("--output", type=Path, help=text)
    text = "target return (default: the first of the run's evaluation)"
    parser.add_argument("--target_return", type=parse_as(TargetReturn), help=text)
    parser.add_argument("--episodes", type=parse_as(PositiveInt), help="number of episodes (default: 1)")
    text = "seed of the first episode (default: the evaluation's)"
    parser.add_argument("--seed", type=parse_as(NonNegativeInt), help=text)


def run(command: Namespace) -> None:
    """Play episodes and print their returns and scores."""
    if command.browser or command.output is not None or len(command.agents) > 1:
        if command.video is not None or command.episodes is not None:
            raise InputError("a page takes neither --video nor --episodes. Leave them out, or name one agent alone.")
        return _show_page(command)
    if command.video is not None:
        choose_backend()
    trained = load_subject(command.agents[0])
    spec, config, target, seed = trained.provenance, trained.config, command.target_return, command.seed
    environment_id = evaluation_environment(config.evaluation, spec)
    if target is None:
        target = default_return(config, spec)
    else:
        check_target(config, target, command.agents[0])
    seed = config.evaluation.seed if seed is None else seed
    acting = describe_acting(config.evaluation, config.condition)
    print(f"{config.backbone.name} of {spec.name} in {environment_id}, {acting}", flush=True)
    options = target, command.episodes or 1, seed
    ends = watch(trained, *options) if command.video is None else iter(film(trained, command.video, *options))
    for number, end in enumerate(ends):
        prefix = "" if target is None else f"target {format_target(target)}, "
        earned, score = format_return(end.earned, spec), float(spec.normalised(end.earned))
        steps = pluralize(end.steps, "step")
        print(f"seed {seed + number}: {prefix}return {earned}, normalised score {score:.1f}, {steps}", flush=True)
    if command.video is not None:
        print(f"written to {command.video}")


def _show_page(command: Namespace) -> None:
    """Write a page of the agents, and serve it unless its folder is named."""
    subjects = [Subject(name, load_subject(name)) for name in command.agents]
    if command.target_return is not None:
        check_target(subjects[0].trained.config, command.target_return, command.agents[0])
    with tempfile.TemporaryDirectory() as temporary:
        folder = command.output or Path(temporary) / "page"
        write_page(folder, subjects, command.target_return, command.seed)
        if command.output is not None:
            print(f"written to {folder}")
            return
        with server(folder) as serving, contextlib.suppress(KeyboardInterrupt):
            print(f"open http://127.0.0.1:{serving.server_port}/ in a browser; Ctrl-C ends this", flush=True)
            serving.serve_forever()
