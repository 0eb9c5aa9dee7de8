"""The configuration of a run from the words of a command line, as `decision-rnn train` reads it."""

from argparse import Namespace
from collections.abc import Sequence

from decision_rnn.cli.parser import command_parser
from decision_rnn.config import RunConfig, from_dict
from decision_rnn.training.train import with_architecture


def parse_run(program: str, words: Sequence[str]) -> tuple[RunConfig, Namespace]:
    """The configuration, and the command's own arguments."""
    command = command_parser("train").read(words)
    dataset = {} if command.dataset is None else {"dataset": command.dataset}
    return from_dict(with_architecture(command.options | dataset), str(command.config or "")), command
