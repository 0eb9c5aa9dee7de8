"""`decision-rnn package`: write an agent as one folder to share, and push it to the Hugging Face Hub."""

from collections.abc import Sequence
from pathlib import Path

from decision_rnn.cli.parser import CommandParser
from decision_rnn.deploy.hub import check_repo_id, is_packaged, push_to_hub
from decision_rnn.deploy.package import package
from decision_rnn.utils.messages import warn


def run(arguments: Sequence[str]) -> None:
    """Write the folder, push it if requested, and print where it is; raises InputError for invalid input."""
    command = parser().read(arguments)
    if command.push is not None:
        check_repo_id(command.push)
    folder = Path(command.run)
    if not is_packaged(folder):
        folder, missing = package(command.run, command.output, command.push, command.plugins, command.browser)
        for sentence in missing:
            warn(sentence)
        print(f"written to {folder}")
    if command.push is not None:
        print(f"pushed to {push_to_hub(folder, command.push, command.private)}")


def parser() -> CommandParser:
    text = "Write an agent as one folder to share, and push it, or a folder that is packaged already, to the Hub."
    parser = CommandParser("decision-rnn package", text)
    parser.add_argument("run", help="the run's folder, or that of a checkpoint or of a packaged agent")
    parser.add_argument("--output", type=Path, help="the folder to make (default: packages/DATASET-BACKBONE-seedN)")
    parser.add_argument("--browser", action="store_true", help="add a page on which the agent plays in a browser")
    parser.add_argument("--push", metavar="ORG/NAME", help="repository on the Hugging Face Hub")
    parser.add_argument("--private", action="store_true", help="make a new repository private")
    return parser
