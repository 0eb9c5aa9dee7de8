"""Compares the scores of the same variants on two machines, from the folders of two comparisons.

    python scripts/machines.py results/ten-seeds results/second-machine

For every dataset, variant and target that both have, it prints the mean and standard deviation over seeds of each, and
their difference with Welch's 95% interval. Another machine rounds differently: the stand-ins that it makes and the
agents that it trains have other bits.
"""

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path

from decision_rnn.comparison.record import Comparison, read_comparison
from decision_rnn.comparison.report.parts import Table
from decision_rnn.comparison.report.words import describe_difference
from decision_rnn.comparison.summary import TargetSummary, VariantSummary, summarise
from decision_rnn.evaluation.statistics import compare_seeds
from decision_rnn.utils.machine import describe_hardware

HEAD = ("data", "variant", "target", "first", "second", "difference")


def machine(comparison: Comparison) -> str:
    """The machines that evaluated the runs."""
    return " or ".join(dict.fromkeys(describe_hardware(cell.hardware) for cell in comparison.trials))


def paired(first: Comparison, second: Comparison) -> Iterator[tuple[VariantSummary, VariantSummary]]:
    """The summaries of the variants that both comparisons have on a dataset."""
    others = {(summary.dataset, summary.variant): summary for summary in summarise(second)}
    for summary in summarise(first):
        if other := others.get((summary.dataset, summary.variant)):
            yield summary, other


def scores(of_target: TargetSummary) -> str:
    mean = f"{of_target.scores.score:.1f}"
    seeds = of_target.per_seed
    return f"{mean} ± {statistics.stdev(seeds):.1f} ({len(seeds)})" if len(seeds) > 1 else f"{mean} (1)"


def by_target(summary: VariantSummary) -> dict[str, TargetSummary]:
    """The targets of a variant by name; the data's best return is another number on each machine."""
    named: dict[str, TargetSummary] = {}
    for target in summary.targets:
        names = {"paper": f"{target.target.target_return or 0:g}", "best": "the data's best", "bc": "none"}
        named |= {names[role]: target for role in target.target.roles if role in names}
    return named


def rows(first: Comparison, second: Comparison) -> list[list[str]]:
    """A row for every target that a variant has in both comparisons, in the order of `HEAD`."""
    found = []
    for summary, other in paired(first, second):
        others = by_target(other)
        for name, ours in by_target(summary).items():
            if name not in others:
                continue
            difference = describe_difference(compare_seeds(others[name].per_seed, ours.per_seed))
            found.append([summary.dataset, summary.variant, name, scores(ours), scores(others[name]), difference])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path, help="the folder of a comparison")
    parser.add_argument("second", type=Path, help="the folder of the other, made on another machine")
    options = parser.parse_args()
    first, second = read_comparison(options.first), read_comparison(options.second)
    found = rows(first, second)
    if not found:
        parser.error(f"{options.first} and {options.second} have no variant on the same dataset: name two that do")
    print(f"first: {machine(first)}\nsecond: {machine(second)}\n")
    print(Table(HEAD[0], HEAD, found).markdown())
    print("\nMean ± standard deviation over seeds (their number); difference of the means, second minus first.")


if __name__ == "__main__":
    main()
