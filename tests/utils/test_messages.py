"""Messages and progress bars."""

import pytest

from decision_rnn.utils.messages import progress_bar, quiet, tell, warn


def test_quiet_silences_messages_and_bars(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        tell("told")
        warn("warned")
        assert list(progress_bar(range(3), desc="working")) == [0, 1, 2]  # without a terminal there is no bar

    work()
    assert capsys.readouterr() == ("told\n", "warned\n")
    with quiet():
        work()
    assert capsys.readouterr() == ("", "")
