"""`decision-rnn export`: write an agent as a file that acts without torch."""

from argparse import Namespace
from pathlib import Path

from decision_rnn.cli.parser import CommandParser, parse_as
from decision_rnn.config import nest
from decision_rnn.deploy.onnx import STEPS, export_onnx
from decision_rnn.runs.checkpoint import load_agent
from decision_rnn.runs.folder import run_of
from decision_rnn.runs.hub import find_agent
from decision_rnn.utils.files import check_destination
from decision_rnn.utils.parsing import TargetReturn


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("agent", help="a run's or packaged agent's folder, pretrained/NAME, or org/name")
    text = "the file, to whose name .onnx is added (default: policy.onnx in the run's folder, or here)"
    parser.add_argument("--output", type=Path, help=text)
    parser.add_condition()
    text = "most probable or sampled actions (default: as the run is evaluated)"
    parser.add_argument("--actions", choices=("greedy", "sampled"), help=text)
    text = "default target return of the policy (default: the first of the run's evaluation)"
    parser.add_argument("--target_return", type=parse_as(TargetReturn), help=text)


def run(command: Namespace) -> None:
    """Export an agent and print how closely the file matches its actions."""
    folder = find_agent(command.agent)
    run_folder = run_of(folder)
    trained = load_agent(folder).with_condition(nest(command.settings).get("condition", {}))
    path = command.output or (run_folder or Path()) / "policy.onnx"
    path = path if path.suffix == ".onnx" else path.with_name(f"{path.name}.onnx")
    check_destination(path)  # before the seconds that an export takes
    difference = export_onnx(trained, path, command.target_return, command.actions)
    print(f"largest difference from the agent's actions over {STEPS} steps with resets: {difference:.1e}")
    print(f"written to {path}: {path.stat().st_size:,} bytes")
