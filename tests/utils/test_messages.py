"""Progress where there is no terminal."""

import sys
import time

import pytest

from decision_rnn.utils import messages
from decision_rnn.utils.messages import bar, counted, quiet


def test_bar_without_a_terminal_prints_lines_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(steps: int) -> None:
        with bar(total=steps, desc="working", unit="step") as shown:
            for _ in range(steps):
                clock[0] += 1.0
                shown.update()

    clock = [0.0]
    monkeypatch.setattr(messages, "_in_notebook", lambda: False)
    monkeypatch.setattr(time, "time", lambda: clock[0])
    for module in [module for name, module in sys.modules.items() if name == "tqdm.std"]:
        monkeypatch.setattr(module, "time", lambda: clock[0])
    work(40)
    assert capsys.readouterr().err == ""
    work(300)
    lines = capsys.readouterr().err.splitlines()
    assert 3 <= len(lines) <= 6
    assert all(line.startswith("working: ") and "/300" in line for line in lines)
    with quiet():
        work(300)
    assert capsys.readouterr().err == ""


def test_counted_has_a_singular() -> None:
    assert [counted(number, "step") for number in (0, 1, 2000)] == ["0 steps", "1 step", "2,000 steps"]
