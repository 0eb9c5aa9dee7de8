"""Results formatted for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decision_rnn.evaluation.remarks import beside_best
from decision_rnn.evaluation.targets import is_best

if TYPE_CHECKING:
    from decision_rnn.evaluation.results import Result, TargetResult
    from decision_rnn.evaluation.statistics import SeedDeviation, SeedScores


def describe_range(in_range: bool | None, best: bool = False) -> str:
    """Whether a target return is inside the data's range, beyond it, or the data's best; empty if unknown. Inside the
    range, scores measure obedience; beyond it, extrapolation."""
    if best:
        return "the data's best"
    return "" if in_range is None else "inside the data" if in_range else "beyond the data"


def format_scores(scores: SeedScores, unit: str = "") -> str:
    """A score with its spread: `81.2 [78.0, 84.1]` for an interval, `81.2 (78.0 to 84.1)` for a range."""
    text = f"{scores.score:.1f}{unit}"
    if scores.spread == "95% interval":
        return f"{text} [{scores.low:.1f}, {scores.high:.1f}]"
    return text if scores.spread is None else f"{text} ({scores.low:.1f} to {scores.high:.1f})"


def format_deviation(deviation: SeedDeviation | None) -> str:
    """Standard deviation of the seeds' scores, in brackets of the agents' true scores: `4.0 (3.2)`; empty for None."""
    return "" if deviation is None else f"{deviation.of_scores:.1f} ({deviation.of_agents:.1f})"


def format_result(result: Result) -> str:
    """The result as a table for a terminal."""
    data, protocol = result.dataset, result.protocol
    cloning = protocol.target_returns == (None,)
    lines = [
        f"{result.config.backbone.name} on {data.name}, step {result.step}, {protocol.episodes} episodes"
        f"{' of cloning' if cloning else ' per target'}, {protocol}, {data.environment_id}",
        f"{'' if cloning else 'target':>12}  {'return':>17}  {'normalised score':>17}  {'length':>6}",
        *(_row(target, protocol.episodes, is_best(target.target_return, data.return_max)) for target in result.targets),
        f"{'(the data)':>12}  {data.return_mean:>8.1f} ± {data.return_sd:>6.1f}  {data.score_mean:>8.1f}",
        "± is one standard deviation over episodes; score 0 is a random policy, 100 an expert",
        *(sentence for sentence in (data.comparable, *data.notes, *result.remarks, *beside_best(result)) if sentence),
    ]
    return "\n".join(lines)


def _row(target: TargetResult, episodes: int, best: bool) -> str:
    asked = "cloning" if target.target_return is None else f"{target.target_return:g}"

    def cell(mean: float, sd: float) -> str:
        return f"{mean:>8.1f} ± {sd:>6.1f}" if episodes > 1 else f"{mean:>8.1f}{'':9}"

    scores = f"{cell(target.return_mean, target.return_sd)}  {cell(target.score_mean, target.score_sd)}"
    return f"{asked:>12}  {scores}  {target.length_mean:>6.0f}  {describe_range(target.in_range, best)}".rstrip()
