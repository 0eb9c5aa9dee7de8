"""`decision-rnn package`: write an agent as one folder to share, and push it to the Hugging Face Hub."""

from argparse import Namespace
from pathlib import Path

from decision_rnn.cli.parser import CommandParser
from decision_rnn.deploy.package import package
from decision_rnn.runs.folder import DESCRIPTION, WEIGHTS
from decision_rnn.runs.hub import CARD, push_to_hub
from decision_rnn.utils.messages import warn


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "run", help="the folder of a run, of a checkpoint, or of a packaged agent, which is only pushed"
    )
    parser.add_settings(package, "output")
    parser.add_argument("--push", metavar="ORG/NAME", help="repository on the Hugging Face Hub")
    parser.add_argument("--private", action="store_true", help="make a new repository private")


def run(command: Namespace) -> None:
    """Write the folder, push it if requested, and print where it is."""
    folder = Path(command.run)
    if not all((folder / file).is_file() for file in (DESCRIPTION, WEIGHTS, CARD)):
        folder, missing = package(command.run, name=command.push, **command.settings)
        for sentence in missing:
            warn(sentence)
        print(f"written to {folder}")
    if command.push is not None:
        print(f"pushed to {push_to_hub(folder, command.push, command.private)}")
