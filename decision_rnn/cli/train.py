"""`decision-rnn train`: one run, from data to scores."""

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser

from decision_rnn.cli.arguments import parse_run
from decision_rnn.data.catalog import resolve
from decision_rnn.data.environments import environment_sizes
from decision_rnn.errors import InputError
from decision_rnn.evaluation.results import evaluate, format_result, write_result
from decision_rnn.training.trainer import train


def run(arguments: Sequence[str]) -> None:
    """Train an agent and, unless no episodes are asked for, evaluate it; InputError for what cannot be used."""
    config, command = parse_run("decision-rnn train", arguments, _options)
    dataset = resolve(config.dataset, config.path, config.partial)
    if config.evaluation.episodes:
        check_environment(dataset.spec.environment_id)
    name = dataset.name.replace("/", "-")
    folder = command.output or Path("runs") / f"{name}-{config.backbone.name}-seed{config.seed}"
    trained = train(config, folder, command.resume)
    if not config.evaluation.episodes:
        print(f"trained in {folder}, and not evaluated: evaluation.episodes is 0")
        return
    result = evaluate(trained, config.evaluation)
    path = write_result(folder, result)
    print(format_result(result))
    print(f"written to {path}")


def check_environment(environment_id: str) -> None:
    """InputError, before hours of training, where there is no such environment to evaluate in."""
    try:
        environment_sizes(environment_id)
    except InputError as error:
        raise InputError(
            f"{error}; where a module of your own registers it, name that by --plugins, and to train without being "
            "evaluated give --evaluation.episodes 0"
        ) from None


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--output", type=Path | None, help="the run's folder (default: runs/DATASET-BACKBONE-seedN)")
    parser.add_argument("--resume", action="store_true", help="go on from the run's last checkpoint")
