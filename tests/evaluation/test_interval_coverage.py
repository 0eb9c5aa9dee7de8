"""The coverage printed with intervals is that in results/statistics, written by scripts/interval_coverage.py."""

import json
from collections import Counter

import interval_coverage
import numpy as np
import pytest
from scipy import stats

from decision_rnn.evaluation.aggregate import AGGREGATE_NOTE, IMPROVEMENT_NOTE
from decision_rnn.evaluation.statistics import DIFFERENCE_NOTE, INTERVAL_NOTE

MEASURED = json.loads((interval_coverage.RESULTS / "coverage.json").read_text())


def percents(table: str, key: str = "coverage", **which: object) -> list[str]:
    """The values of `key` in the rows of a table that match `which` and have at least five seeds."""
    rows = [row for row in MEASURED[table] if which.items() <= row.items()]
    return [f"{row[key]:.0%}" for row in rows if row["seeds"] >= 5]


def test_interval_notes_state_the_coverage_in_coverage_json() -> None:
    normal, humps = (percents("one dataset", shape=s, interval="Student's t") for s in ("normal", "bimodal"))
    assert "in {}, {} and {} of cases at 5, 10 and 20 seeds".format(*normal) in INTERVAL_NOTE
    assert "of bimodal ones in {}, {} and {}".format(*humps) in INTERVAL_NOTE
    welch, found = (percents("differences", key, shape="normal") for key in ("coverage", "better"))
    assert "covered in {}, {} and {} of cases at 5, 10 and 20 seeds".format(*welch) in DIFFERENCE_NOTE
    assert "differ in {}, {} and {}:".format(*found) in DIFFERENCE_NOTE
    normal, humps = (
        percents("interquartile mean", shape=shape, datasets=9, interval="t") for shape in ("normal", "bimodal")
    )
    assert "covered in {}, {} and {} of cases for normal".format(*normal) in AGGREGATE_NOTE
    assert "in {}, {} and {} for bimodal".format(*humps) in AGGREGATE_NOTE
    skewed = percents("interquartile mean", shape="skewed", datasets=9, interval="t")
    assert "in {}, {} and {} for skewed".format(*skewed) in AGGREGATE_NOTE
    fewest = [
        percents("interquartile mean", shape=shape, datasets=3, interval="t", given="yes")
        for shape in ("normal", "bimodal", "skewed")
    ]
    said = "of three datasets by 10 and 20 seeds in {} and {}, in {} and {}, in {} and {}:"
    assert said.format(*(share for shares in fewest for share in shares)) in AGGREGATE_NOTE
    for table, interval, note in (("probability of improvement", "Newcombe's", IMPROVEMENT_NOTE),):
        shares = sorted(percents(table, interval=interval))
        assert f"covered in {shares[0]} to {shares[-1]} of cases" in note.replace("\n", " ")


def test_every_printed_interval_covers_at_least_93_percent_for_normal_scores() -> None:
    given = [row for row in MEASURED["one dataset"] if row["interval"] == "Student's t" and row["seeds"] >= 5]
    given = [row for row in given + MEASURED["differences"] if row["shape"] == "normal"]
    given += [row for row in MEASURED["interquartile mean"]
              if (row["shape"], row["interval"], row["given"]) == ("normal", "t", "yes")]  # fmt: skip
    given += [row for row in MEASURED["probability of improvement"] if row["interval"] == "Newcombe's"]
    assert len(given) > 40
    assert [row for row in given if row["coverage"] < 0.93] == []


def cases(rows: list[dict]) -> Counter:
    return Counter(tuple(row.get(key) for key in ("shape", "datasets", "seeds", "interval", "truth")) for row in rows)


@pytest.mark.parametrize(
    ("make", "table"),
    [
        ("differences", "differences"),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (
                ("one_dataset", "one dataset"),
                ("aggregates", "interquartile mean"),
                ("improvements", "probability of improvement"),
            )
        ),
    ],
)
def test_coverage_json_has_every_case_of_the_script(make: str, table: str) -> None:
    measured = list(getattr(interval_coverage, make)(10, np.random.default_rng(0)))
    assert cases(measured) == cases(MEASURED[table])
    assert all(0 <= row["coverage"] <= 1 for row in measured + MEASURED[table])


def test_intervals_of_the_mean_agree_with_scipy() -> None:
    scores = 100 - np.random.default_rng(0).lognormal(2.5, 0.8, 12)
    intervals = interval_coverage.mean_intervals(scores[None], np.random.default_rng(0))
    bootstrap = stats.bootstrap((scores,), np.mean, method="percentile").confidence_interval
    low, high = (end[0] for end in intervals["percentile bootstrap"])
    assert (low, high) == pytest.approx((bootstrap.low, bootstrap.high), abs=0.15 * scores.std())
    exact = stats.t.interval(0.95, len(scores) - 1, scores.mean(), stats.sem(scores))
    assert tuple(end[0] for end in intervals["Student's t"]) == pytest.approx(exact)
