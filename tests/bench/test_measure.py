"""Interleaved timing, and benchmark rows as a table and as JSON."""

import json
from pathlib import Path

import pytest

from decision_rnn.bench import Baseline, Row, format_rows, measure, write_rows
from decision_rnn.bench.measure import compare, interleaved, timed
from decision_rnn.errors import InputError
from decision_rnn.files import check_destination

ROWS = [
    Row("train/mingru/fp32", 50.0, "ms", Baseline("train/decision-transformer/fp32", 200.0), 4.0),
    Row("train/decision-transformer/fp32", 200.0, "ms", Baseline("train/decision-transformer/fp32", 200.0), 1.0),
]


def test_interleaved_runs_candidates_in_turn_and_ignores_warmup():
    calls = []
    seconds = {"a": iter([100.0, 3.0, 1.0, 2.0]), "b": iter([100.0, 7.0, 9.0, 8.0])}

    def candidate(name):
        def timing():
            calls.append(name)
            return next(seconds[name])

        return timing

    medians = interleaved({name: candidate(name) for name in "ab"}, rounds=3, warmup=1, description="test")
    assert calls == list("abababab")
    assert medians == {"a": 2.0, "b": 8.0}


def test_timed_returns_the_mean_of_its_calls(monkeypatch):
    """With a clock that only `work` moves, by 1, 2, 3 and so on up to 10 seconds."""
    calls, now = [], [100.0]

    def work():
        calls.append(len(calls) + 1)
        now[0] += calls[-1]

    monkeypatch.setattr(measure.time, "process_time", lambda: now[0])
    timing = timed(work, calls=5)
    assert calls == []
    assert timing() == 3
    assert calls == [1, 2, 3, 4, 5]
    assert timing() == 8
    assert calls == list(range(1, 11))


def test_timed_measures_real_time():
    assert 0 < timed(lambda: sum(range(20_000)), calls=5)() < 1


@pytest.mark.parametrize("rounds", [0, -1])
def test_interleaved_without_rounds_raises(rounds):
    with pytest.raises(InputError, match=f"rounds is {rounds}"):
        interleaved({}, rounds, warmup=1, description="test")


def test_compare_ratio_is_baseline_over_value():
    fast, slow = compare({"fast": 2.0, "slow": 8.0}, "slow", "ms")
    assert fast == Row("fast", 2.0, "ms", Baseline("slow", 8.0), 4.0)
    assert slow.ratio == 1.0


def test_write_rows_round_trips_through_json(tmp_path: Path):
    path = tmp_path / "rows.json"
    write_rows(path, ROWS)
    loaded = json.loads(path.read_text())
    assert [list(row) for row in loaded] == [["name", "value", "unit", "baseline", "ratio"]] * 2
    assert [Row(**{**row, "baseline": Baseline(**row["baseline"])}) for row in loaded] == ROWS


def test_format_rows_shows_every_row():
    header, *lines = format_rows(ROWS).splitlines()
    assert "ratio" in header
    assert [line.split()[0] for line in lines] == [row.name for row in ROWS]
    assert "4.00  train/decision-transformer/fp32 (200.0 ms)" in lines[0]


@pytest.mark.parametrize("destination", ["absent/rows.json", "folder"])
def test_check_destination_and_write_rows_name_an_unwritable_file(tmp_path: Path, destination):
    (tmp_path / "folder").mkdir()
    path = tmp_path / destination
    with pytest.raises(InputError, match=f"cannot write {path}"):
        check_destination(path)
    with pytest.raises(InputError, match=f"cannot write {path}"):
        write_rows(path, ROWS)
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_check_destination_creates_no_file(tmp_path: Path):
    check_destination(tmp_path / "rows.json")
    assert not list(tmp_path.iterdir())
