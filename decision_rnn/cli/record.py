"""`decision-rnn record`: play a policy or an agent, and write its episodes as a dataset."""

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from pydantic import ImportString

from decision_rnn.cli.parser import CommandParser
from decision_rnn.data.info import format_size
from decision_rnn.evaluation.recording import record
from decision_rnn.utils.parsing import convert
from decision_rnn.utils.plugins import import_plugins


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("environment", help="a registered Gymnasium id; --plugins names the module that registers it")
    policy = parser.add_mutually_exclusive_group(required=True)
    text = "random, or module.function from the working folder or as installed: from an observation to an action"
    policy.add_argument("--policy", help=text)
    policy.add_argument("--agent", help="a run's or packaged agent's folder, pretrained/NAME, or org/name")
    parser.add_argument("--output", required=True, help="the name of the new dataset, local/NAME")
    options = ("episodes", "steps", "overwrite", "seed", "target_return", "max_episode_steps")
    parser.add_settings(record, *options)


def run(command: Namespace) -> None:
    """Record episodes and print how many."""
    policy: Any = command.agent or command.policy
    if command.policy not in (None, "random"):
        import_plugins([command.policy.rpartition(".")[0]], "--policy")
        policy = convert(command.policy, ImportString[Callable[..., Any]], f"--policy {command.policy}")  # type: ignore[misc]
    print(format_size(record(policy, command.environment, command.output, **command.settings)))
