"""`decision-rnn record`: play a policy or an agent, and write its episodes as a dataset."""

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from decision_rnn.cli.parser import CommandParser
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import counted
from decision_rnn.utils.parsing import COMMAND_LINE, NonNegativeInt, PositiveInt, TargetReturn
from decision_rnn.utils.plugins import import_callable


def run(arguments: Sequence[str]) -> None:
    """Record episodes and print how many; raises InputError for invalid input."""
    command = parser().read(arguments)
    if (command.policy is None) == (command.agent is None):
        raise InputError(f"{COMMAND_LINE}: give one of --policy module.function and --agent RUN")
    policy: Any = command.agent if command.policy is None else import_callable(command.policy, "--policy", "function")
    from decision_rnn.evaluation.recording import record  # here: slow, and not needed for `--help`

    options = ("episodes", "steps", "seed", "append", "max_episode_steps")
    with contextlib.ExitStack() as stack:
        environment: Any = command.environment
        if command.num_envs is not None:
            from gymnasium.vector import SyncVectorEnv

            from decision_rnn.environments.environments import make_environment

            make = partial(make_environment, command.environment)
            environment = stack.enter_context(contextlib.closing(SyncVectorEnv([make] * command.num_envs)))
        store = record(
            policy,
            environment,
            command.output,
            target_return=command.target_returns,
            **{name: getattr(command, name) for name in options},
        ).open()
    size, returns = f"{counted(store.episodes, 'episode')}, {counted(store.steps, 'step')}", store.episode_returns
    print(f"{command.output}: {size}, returns {returns.min():.4g} to {returns.max():.4g}, in {store.path}")


def parser() -> CommandParser:
    parser = CommandParser("decision-rnn record")
    parser.add_argument("environment", help="a registered Gymnasium id; --plugins names the module that registers it")
    text = "module.function from the working folder or as installed: from an observation to an action"
    parser.add_argument("--policy", help=text)
    text = "instead of --policy: a run's or packaged agent's folder, pretrained/NAME, or org/name"
    parser.add_argument("--agent", help=text)
    parser.add_argument("--output", required=True, help="the name of the new dataset, local/NAME")
    parser.add_argument("--episodes", type=PositiveInt | None, help="the number of episodes to play")
    text = "instead of --episodes: the minimum number of steps to play, in whole episodes"
    parser.add_argument("--steps", type=PositiveInt | None, help=text)
    parser.add_argument("--append", action="store_true", help="if the dataset exists, add the episodes to it")
    text = "environments stepped together; a function then takes (num_envs, O) (default: one environment)"
    parser.add_argument("--num_envs", type=PositiveInt | None, help=text)
    parser.add_argument("--seed", type=NonNegativeInt, default=0, help="episode i starts with reset(seed + i)")
    text = "target return of the agent (default: the first of the run's evaluation)"
    parser.add_argument("--target_returns", type=TargetReturn | None, help=text)
    text = "number of steps after which an episode is cut (default: the environment's own limit, or 10,000)"
    parser.add_argument("--max_episode_steps", type=PositiveInt | None, help=text)
    return parser
