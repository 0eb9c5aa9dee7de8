"""`decision-rnn train`: make one run, from data to scores."""

from collections.abc import Sequence
from pathlib import Path

from decision_rnn.cli.arguments import parse_run, run_parser
from decision_rnn.cli.parser import CommandParser
from decision_rnn.utils.messages import tell, typed
from decision_rnn.utils.parsing import PositiveInt
from decision_rnn.utils.workers import follows

PROGRAM = "decision-rnn train"
COMMON = ("backbone", "training.steps", "seed")


def run(arguments: Sequence[str]) -> None:
    """Train an agent and, unless `evaluation.episodes` is 0, evaluate it; raises InputError for invalid input.

    One of several processes that train one agent only follows the first.
    """
    if follows():
        from decision_rnn.training.follower import follow

        follow()
        return
    config, command = parse_run(PROGRAM, arguments, _options, COMMON)
    from decision_rnn.data.names import check_name

    check_name(config.dataset)  # before torch is imported, which takes seconds
    from decision_rnn.evaluation.evaluate import evaluate_once
    from decision_rnn.evaluation.results import result_file
    from decision_rnn.training.run import train_run
    from decision_rnn.training.run_folder import write_scores

    trained = train_run(config, command.output, command.resume, processes=command.processes)
    config = trained.config  # data without an environment are not evaluated
    if not config.evaluation.episodes:
        print(f"trained in {trained.folder}, and not evaluated: evaluation.episodes is 0")
        return
    try:
        result = evaluate_once(trained.folder, trained.agent, config.evaluation, command.processes)
    except KeyboardInterrupt:
        scores = typed("decision-rnn", "evaluate", trained.folder)
        raise KeyboardInterrupt(f"interrupted; {trained.folder} is trained, and `{scores}` scores it") from None
    write_scores(trained.folder, result.step, result.scalars("evaluation"))
    print(result)
    tell(f"written to {result_file(trained.folder, result)}")


def parser() -> CommandParser:
    """The parser of the command, with the default backbone."""
    return run_parser(PROGRAM, _options, COMMON, {})


def _options(parser: CommandParser) -> None:
    parser.add_argument("--output", type=Path, help="the run's folder (default: runs/DATASET-BACKBONE-seedN)")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint of the run in --output")
    parser.add_argument("--processes", type=PositiveInt, help="processes that play episodes (default: one per core)")
