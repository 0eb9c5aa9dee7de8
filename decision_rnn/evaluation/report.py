"""Results formatted for the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from decision_rnn.evaluation.remarks import beside_best
from decision_rnn.evaluation.targets import is_best

if TYPE_CHECKING:
    from decision_rnn.data.summary import DataSummary
    from decision_rnn.evaluation.results import Result, TargetResult
    from decision_rnn.evaluation.statistics import SeedDeviation, SeedScores


def describe_range(in_range: bool | None, best: bool = False) -> str:
    """Whether a target return is inside the data's range, beyond it, or the data's best; empty if unknown. Inside the
    range, scores measure the target error; beyond it, extrapolation."""
    if best:
        return "the data's best"
    return "" if in_range is None else "inside the data" if in_range else "beyond the data"


def format_scores(scores: SeedScores, unit: str = "", digits: int = 1) -> str:
    """A score with its spread: `81.2 [78.0, 84.1]` for an interval, `81.2 (78.0 to 84.1)` for a range."""
    text = f"{scores.score:.{digits}f}{unit}"
    if scores.spread == "95% interval":
        return f"{text} [{scores.low:.{digits}f}, {scores.high:.{digits}f}]"
    return text if scores.spread is None else f"{text} ({scores.low:.{digits}f} to {scores.high:.{digits}f})"


def format_return(value: float, data: DataSummary, least: int = 0) -> str:
    """A return with as many decimals as the range of the data's returns asks for, at least `least`: none for returns in
    the thousands, two between 0 and 1."""
    spread = data.return_max - data.return_min
    places = max(least, 2 - math.floor(math.log10(spread))) if spread > 0 else least
    return f"{value:.{places}f}"


def format_deviation(deviation: SeedDeviation | None) -> str:
    """Standard deviation of the seeds' scores, in brackets of the agents' true scores: `4.0 (3.2)`; empty for None."""
    return "" if deviation is None else f"{deviation.of_scores:.1f} ({deviation.of_agents:.1f})"


def format_result(result: Result) -> str:
    """The result as a table for a terminal."""
    data, protocol = result.dataset, result.protocol
    cloning = protocol.target_returns == (None,)

    def row(name: str, returns: tuple[float, float], scores: str, rest: str = "") -> str:
        mean, sd = (format_return(value, data, least=1) for value in returns)
        spread = f"{mean:>8} ± {sd:>6}" if protocol.episodes > 1 or not rest else f"{mean:>8}{'':9}"
        return f"{name:>12}  {spread}  {scores}{rest}".rstrip()

    def target_row(target: TargetResult) -> str:
        name = "cloning" if target.target_return is None else f"{target.target_return:g}"
        score = f"{target.score_mean:>8.1f}" + (f" ± {target.score_sd:>6.1f}" if protocol.episodes > 1 else f"{'':9}")
        where = describe_range(target.in_range, is_best(target.target_return, data.return_max))
        return row(name, (target.return_mean, target.return_sd), score, f"  {target.length_mean:>6.0f}  {where}")

    lines = [
        f"{result.config.backbone.name} on {data.name}, step {result.step}, {protocol.episodes} episodes"
        f"{' of cloning' if cloning else ' per target'}, {protocol}, {data.environment_id}",
        f"{'' if cloning else 'target':>12}  {'return':>17}  {'normalised score':>17}  {'length':>6}",
        *(target_row(target) for target in result.targets),
        row("(the data)", (data.return_mean, data.return_sd), f"{data.score_mean:>8.1f}"),
        "± is one standard deviation over episodes; score 0 is a random policy, 100 an expert",
        *(sentence for sentence in (data.comparable, *data.notes, *result.remarks, *beside_best(result)) if sentence),
    ]
    return "\n".join(lines)
