"""Remarks printed with scores that are easily misread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from decision_rnn.backbones import registered
from decision_rnn.evaluation.targets import is_best

if TYPE_CHECKING:
    from decision_rnn.config import RunConfig
    from decision_rnn.data.summary import DataSummary
    from decision_rnn.evaluation.results import Protocol, Result
    from decision_rnn.evaluation.rollout import RolloutResult

FAR_BEYOND = 2.0
"""How far outside the data's returns a target may be, in multiples of their range, before it is called out of all
proportion."""


def remarks(config: RunConfig, dataset: DataSummary, protocol: Protocol) -> Iterator[str]:
    """What a reader has to know before trusting the scores of an evaluation, in one sentence each."""
    low, high = dataset.return_min, dataset.return_max
    for target in protocol.target_returns:
        if target is None or low <= target <= high:
            continue
        bound, side = (high, "best") if target > high else (low, "worst")
        text = f"{target:g} is beyond the data's {side} {bound:.0f}: its score measures extrapolation"
        cap = getattr(config.condition, "rtg_cap", 0.0)
        if target > high and cap:
            share = f"the {cap:g} quantile of " if cap < 1 else ""
            text += f", though the agent sees at most {share}what the data hold at each timestep (condition.rtg_cap)"
        if abs(target - bound) > FAR_BEYOND * (high - low):
            text += (
                f", and out of all proportion to the data's returns, {low:.0f} to {high:.0f}: it may lie outside what "
                "an episode can earn, so choose targets near the data's returns"
            )
        yield text
    if config.top_fraction < 1 and config.takes_target:
        yield (
            f"the best {config.top_fraction:g} of the episodes alone were trained on: returns below theirs, though "
            "within the data's range, were never seen"
        )
    backbone = config.backbone.name
    forgets_slowly = getattr(registered(backbone).cls, "forgets_slowly", False)
    if forgets_slowly and config.training.tbptt_slices == 1 and protocol.state == "recurrent":
        yield (
            f"{backbone} forgets slowly and was trained on slices that each start from the initial state: a state "
            "carried over whole episodes may score far below what --state window scores, and below training with "
            "--training.tbptt_slices 50"
        )


def remark_on_cuts(played: Sequence[RolloutResult]) -> Iterator[str]:
    """A sentence on the episodes that did not end within the largest number of steps, if there are any."""
    cut, lengths = (np.concatenate([getattr(of, name) for of in played]) for name in ("cut", "lengths"))
    if cut.any():
        yield (
            f"{cut.sum()} of {len(cut)} episodes were cut after {lengths[cut].max():,} steps, before the environment "
            "ended them, and their returns lack what follows: evaluation.max_episode_steps sets the number"
        )


def beside_best(result: Result) -> Iterator[str]:
    """A sentence that compares the score at the data's best return with those at higher targets, if there are both.

    It is not among the remarks that a result stores, since it contains scores, which differ between the seeds of a
    comparison.
    """
    best = next((target for target in result.targets if is_best(target.target_return, result.dataset.return_max)), None)
    if best is None or best.target_return is None:
        return
    beyond = [
        f"at {target.target_return:g}, {target.score_mean:.1f}"
        for target in result.targets
        if target.target_return is not None and target.target_return > best.target_return
    ]
    if beyond:
        yield (f"at the data's best, {best.target_return:g}, it scores {best.score_mean:.1f}; {'; '.join(beyond)}")
