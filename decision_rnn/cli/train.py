"""`decision-rnn train`: one run, from data to scores."""

from collections.abc import Sequence
from pathlib import Path

from decision_rnn.cli.parser import CommandParser, announce_standin, parse_as
from decision_rnn.config import from_dict
from decision_rnn.training.train import train
from decision_rnn.utils.distributed import rank
from decision_rnn.utils.parsing import PositiveInt, read_yaml


def run(arguments: Sequence[str]) -> None:
    """Train an agent and, unless `evaluation.episodes` is 0, evaluate it; raises InputError for invalid input."""
    command = parser().read(arguments)
    if command.config is not None:
        from_dict({"dataset": "", **read_yaml(command.config)}, str(command.config))  # an error names the file
    dataset = command.dataset or command.options.pop("dataset", None)
    announce_standin(dataset)
    trained = train(dataset, output=command.output, resume=command.resume, **command.options)
    if rank() > 0:
        return
    if trained.config.evaluation.episodes:
        print(trained.evaluate(processes=command.processes))
    else:
        print(f"trained in {trained.folder}, and not evaluated")


def parser() -> CommandParser:
    parser = CommandParser("decision-rnn train", "Train an agent and evaluate it.", takes_run=True)
    parser.add_argument("dataset", nargs="?", help="the dataset's name, such as standin/hopper-medium")
    parser.add_argument("--output", type=Path, help="the run's folder (default: runs/DATASET-BACKBONE-seedN)")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint of the run in --output")
    text = "processes that play episodes (default: one per core)"
    parser.add_argument("--processes", type=parse_as(PositiveInt), help=text)
    return parser
