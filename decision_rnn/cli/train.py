"""`decision-rnn train`: one run, from data to scores."""

import sys
from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser

from decision_rnn.checkpoint import Provenance
from decision_rnn.cli.arguments import parse_run
from decision_rnn.config import RunConfig
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.environments import check_environment
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.report import format_result
from decision_rnn.evaluation.results import write_result
from decision_rnn.evaluation.targets import asked_returns, describe_few, describe_reach
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
    trained = train(config, folder, command.resume, on_data=lambda *data: _tell_reach(config, *data))
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


def _tell_reach(config: RunConfig, provenance: Provenance, seen: EpisodeStore) -> None:
    """Print how many of the episodes trained on reach what will be asked for, and on stderr a warning if few do."""
    if not config.agent.return_conditioning:
        return
    settings, spec, best = config.evaluation, provenance.spec, provenance.return_max
    asked = asked_returns(settings, spec, best)
    print(describe_reach(asked, seen.episode_returns), flush=True)
    # The data's best that nobody named is asked to be read beside the others: that few reach it needs no warning.
    wanted = asked if settings.target_returns is not None else [target for target in asked if target != best]
    if (few := describe_few(wanted, seen.episode_returns)) is not None:
        print(f"warning: {few}", file=sys.stderr, flush=True)
