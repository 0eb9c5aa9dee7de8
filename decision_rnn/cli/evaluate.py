"""`decision-rnn evaluate`: evaluate an agent."""

from argparse import Namespace
from dataclasses import fields

from decision_rnn.cli.parser import CommandParser
from decision_rnn.config import EvaluationConfig, nest
from decision_rnn.deploy.policies import load_policy
from decision_rnn.evaluation.evaluate import evaluate

SETTINGS = [field.name for field in fields(EvaluationConfig) if field.name != "checkpoint_episodes"]


def add_arguments(parser: CommandParser) -> None:
    text = "a run's or packaged agent's folder, pretrained/NAME, org/name of the hub, or policy.onnx"
    parser.add_argument("run", help=text)
    parser.add_settings(EvaluationConfig, *SETTINGS, show_defaults=False)  # they are the run's
    parser.add_condition()
    parser.add_settings(evaluate, "output", "validation", "plot", "processes")


def run(command: Namespace) -> None:
    """Evaluate an agent, overriding its settings with the command line's, and print its scores."""
    policy = load_policy(command.run) if command.run.endswith(".onnx") else command.run
    print(evaluate(policy, **nest(command.settings)))
