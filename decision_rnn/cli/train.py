"""`decision-rnn train`: one run, from data to scores."""

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser

from decision_rnn.cli.arguments import parse_run
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.environments import check_environment
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.report import format_result
from decision_rnn.evaluation.results import write_result
from decision_rnn.training.loop import train
from decision_rnn.training.run_folder import check_resumed_run


def run(arguments: Sequence[str]) -> None:
    """Train an agent and, unless no episodes are asked for, evaluate it; InputError for what cannot be used."""
    config, command = parse_run("decision-rnn train", arguments, _options)
    dataset = open_dataset(config.dataset, config.path, config.partial)
    name = dataset.name.replace("/", "-")
    folder = command.output or Path("runs") / f"{name}-{config.backbone.name}-seed{config.seed}"
    if command.resume:
        config = check_resumed_run(config, folder)
    if config.evaluation.episodes:
        spec = dataset.spec
        check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
    trained = train(config, folder, command.resume)
    if not config.evaluation.episodes:
        print(f"trained in {folder}, and not evaluated: evaluation.episodes is 0")
        return
    result = evaluate(trained, config.evaluation)
    path = write_result(folder, result)
    print(format_result(result))
    print(f"written to {path}")


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--output", type=Path | None, help="the run's folder (default: runs/DATASET-BACKBONE-seedN)")
    parser.add_argument("--resume", action="store_true", help="go on from the run's last checkpoint")
