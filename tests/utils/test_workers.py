import time
from functools import partial
from pathlib import Path

import pytest

from decision_rnn.utils.workers import parallel_map


def play(folder: Path, first_fails: bool, task: int) -> int:
    """Task 0 ends when task 1 has begun; task 1 then takes half a second, or a minute if `first_fails`."""
    if task == 1:
        (folder / "begun").touch()
        time.sleep(60 if first_fails else 0.5)
        (folder / "ended").touch()
    while not (folder / "begun").exists():
        time.sleep(0.01)
    if first_fails:
        raise ValueError("the first task fails")
    return task


def test_closing_parallel_map_waits_for_tasks_begun(tmp_path: Path) -> None:
    answers = parallel_map(partial(play, tmp_path, False), [0, 1], 2, "plays")
    assert next(answers) == 0
    assert not (tmp_path / "ended").exists()
    answers.close()
    assert (tmp_path / "ended").exists()


def test_error_in_a_task_kills_the_other_workers(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(ValueError, match="the first task fails"):
        list(parallel_map(partial(play, tmp_path, True), [0, 1], 2, "plays"))
    assert time.monotonic() - start < 30
    assert not (tmp_path / "ended").exists()
