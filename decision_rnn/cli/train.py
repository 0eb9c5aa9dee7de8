"""`decision-rnn train`: one run, from data to scores."""

from argparse import Namespace

from decision_rnn.cli.parser import CommandParser, parse_as
from decision_rnn.training.summary import summarise
from decision_rnn.training.train import train, train_keys
from decision_rnn.utils.distributed import rank
from decision_rnn.utils.parsing import PositiveInt


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("dataset", nargs="?", help="the dataset's name, such as standin/hopper-medium")
    parser.add_settings(train, "output", "resume", "overwrite")
    text = "processes that play episodes (default: one per core)"
    parser.add_argument("--processes", type=parse_as(PositiveInt), help=text)


def run(command: Namespace) -> None:
    """Train an agent and, unless `evaluation.episodes` is 0, evaluate it."""
    source = "the command line" if command.config is None else str(command.config)
    if command.config is not None and command.overrides:
        source += " and the command line"
    trained = train_keys(command.options, source, command.dataset, **command.settings)
    if rank() > 0:
        return
    if trained.config.evaluation.episodes:
        print(trained.evaluate(processes=command.processes))
    else:
        print(summarise(trained))
