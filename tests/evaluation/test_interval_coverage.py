"""The coverage that is printed beside intervals is that in results/coverage, which the script makes."""

import json

import interval_coverage
import numpy as np
import pytest
from scipy import stats

from decision_rnn.evaluation.statistics import INTERVAL_NOTE

MEASURED = json.loads((interval_coverage.RESULTS / "coverage.json").read_text())


def test_the_note_beside_intervals_says_what_was_measured() -> None:
    def percent(shape: str) -> list[str]:
        rows = [row for row in MEASURED["one dataset"] if (row["shape"], row["interval"]) == (shape, "Student's t")]
        return [f"{row['coverage']:.0%}" for row in rows if row["seeds"] >= 5]

    normal, humps = percent("normal"), percent("two-humped")
    assert "in {}, {} and {} of cases at 5, 10 and 20 seeds".format(*normal) in INTERVAL_NOTE
    assert "of two-humped ones in {}, {} and {}".format(*humps) in INTERVAL_NOTE


def test_every_interval_that_is_given_covers_93_percent_of_normal_scores() -> None:
    given = [row for row in MEASURED["one dataset"] if row["interval"] == "Student's t" and row["seeds"] >= 5]
    given = [row for row in given + MEASURED["differences"] if row["shape"] == "normal"]
    given += [row for row in MEASURED["interquartile mean"]
              if (row["shape"], row["interval"], row["printed"]) == ("normal", "t", "yes")]  # fmt: skip
    given += [row for row in MEASURED["probability of improvement"] if row["interval"] == "Newcombe's"]
    given += [row for row in MEASURED["performance profile"] if row["interval"] == "Wilson's"]
    assert len(given) > 50
    assert [row for row in given if row["coverage"] < 0.93] == []


@pytest.mark.parametrize("make", ["one_dataset", "differences", "aggregates", "improvements", "profiles"])
def test_coverage_is_measured_of_every_case(make: str) -> None:
    if make == "aggregates":
        pytest.skip("takes long; the intervals are those of the others")
    rows = list(getattr(interval_coverage, make)(10, np.random.default_rng(0)))
    assert all(0 <= row["coverage"] <= 1 for row in rows)


def test_the_bootstraps_that_ours_is_compared_with_are_scipys() -> None:
    """Percentile and BCa of one sample, with bootstraps of their own."""
    x = 100 - np.random.default_rng(0).lognormal(2.5, 0.8, 12)
    ours = interval_coverage.mean_intervals(np.tile(x, (1, 1)), np.random.default_rng(0))
    for name, method in (("percentile bootstrap", "percentile"), ("BCa", "bca")):
        theirs = stats.bootstrap((x,), np.mean, method=method).confidence_interval
        assert (ours[name][0][0], ours[name][1][0]) == pytest.approx((theirs.low, theirs.high), abs=0.15 * x.std())
