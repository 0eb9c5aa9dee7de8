"""`decision-rnn export`: a run's agent as a file that acts without torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from decision_rnn.checkpoint import last_checkpoint, load_agent
from decision_rnn.cli.arguments import command_parser, parse_command
from decision_rnn.deploy.onnx import STEPS, export_onnx
from decision_rnn.errors import InputError
from decision_rnn.evaluation.results import Result, read_result
from decision_rnn.files import existing_ancestor


def run(arguments: Sequence[str]) -> None:
    """Export the last checkpoint of a run and say how closely it acts as the agent; InputError for what cannot be."""
    parser = command_parser("decision-rnn export")
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--format", type=Literal["onnx"], default="onnx", help="of the file")
    parser.add_argument("--output", type=Path | None, help="the file (default: policy.onnx in the run's folder)")
    parser.add_argument(
        "--target-return", type=float | None, help="asked for where a user names none (default: the dataset's first)"
    )
    command = parse_command(parser, arguments)
    trained = load_agent(last_checkpoint(command.run))
    path = command.output or command.run / "policy.onnx"
    if path.is_dir() or not existing_ancestor(path.parent).is_dir():
        raise InputError(f"cannot write {path}: name a file, such as --output policy.onnx")
    path.parent.mkdir(parents=True, exist_ok=True)
    results = _results(command.run, trained.step)
    difference = export_onnx(trained, path, command.target_return, results)
    print(f"largest difference from the agent's actions over {STEPS} steps with resets: {difference:.1e}")
    print(f"written to {path}: {path.stat().st_size:,} bytes")


def _results(run: Path, step: int) -> list[Result]:
    """The results of a checkpoint in the run's folder; those that cannot be read are left out."""
    results = []
    for path in sorted((run / "results").glob(f"step-{step}-*.json")):
        try:
            results.append(read_result(path))
        except InputError:
            continue
    return results
