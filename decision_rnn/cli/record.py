"""`decision-rnn record`: play a policy or an agent, and write its episodes as a dataset."""

from collections.abc import Sequence
from typing import Any

from decision_rnn.cli.parser import CommandParser, parse_as
from decision_rnn.evaluation.recording import record
from decision_rnn.utils.messages import counted
from decision_rnn.utils.parsing import NonNegativeInt, PositiveInt, TargetReturn
from decision_rnn.utils.plugins import import_callable


def run(arguments: Sequence[str]) -> None:
    """Record episodes and print how many; raises InputError for invalid input."""
    command = parser().read(arguments)
    policy: Any = command.agent or command.policy
    if command.policy not in (None, "random"):
        policy = import_callable(command.policy, "--policy")
    settings = ("episodes", "steps", "seed", "append", "max_episode_steps", "target_return")
    options = {name: getattr(command, name) for name in settings}
    store = record(policy, command.environment, command.output, **options).store
    size, returns = f"{counted(store.num_episodes, 'episode')}, {counted(store.steps, 'step')}", store.episode_returns
    print(f"{command.output}: {size}, returns {returns.min():.4g} to {returns.max():.4g}, in {store.path}")


def parser() -> CommandParser:
    parser = CommandParser("decision-rnn record", "Play a policy or an agent, and write its episodes as a dataset.")
    parser.add_argument("environment", help="a registered Gymnasium id; --plugins names the module that registers it")
    policy = parser.add_mutually_exclusive_group(required=True)
    text = "random, or module.function from the working folder or as installed: from an observation to an action"
    policy.add_argument("--policy", help=text)
    policy.add_argument("--agent", help="a run's or packaged agent's folder, pretrained/NAME, or org/name")
    parser.add_argument("--output", required=True, help="the name of the new dataset, local/NAME")
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--episodes", type=parse_as(PositiveInt), help="the number of episodes to play")
    text = "the minimum number of steps to play, in whole episodes"
    size.add_argument("--steps", type=parse_as(PositiveInt), help=text)
    parser.add_argument("--append", action="store_true", help="if the dataset exists, add the episodes to it")
    text = "episode i starts with reset(seed + i)"
    parser.add_argument("--seed", type=parse_as(NonNegativeInt), default=0, help=text)
    text = "target return of the agent (default: the first of the run's evaluation)"
    parser.add_argument("--target_return", type=parse_as(TargetReturn), help=text)
    text = "number of steps after which an episode is cut (default: the environment's own limit, or 10,000)"
    parser.add_argument("--max_episode_steps", type=parse_as(PositiveInt), help=text)
    return parser
