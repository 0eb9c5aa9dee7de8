"""`decision-rnn play`: films and windows of agents, and what they come to."""

import io
import subprocess
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
import yaml

from decision_rnn.checkpoint import TrainedAgent, save_checkpoint
from decision_rnn.cli import play as command
from decision_rnn.config import to_dict
from decision_rnn.evaluation import rendering
from decision_rnn.evaluation.play import Moment

CLI = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def runs(tmp_path: Path, pendulum: Callable[..., TrainedAgent]) -> None:
    """In the working folder `run` and `cloning`, two runs."""
    for name in ("run", "cloning"):
        trained = pendulum(cloning=name == "cloning")
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(yaml.safe_dump(to_dict(trained.config)))
        save_checkpoint(tmp_path / name, trained, {})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "there is no screen to open a window on: write a film instead"),
        (["run", "--video", "episode.gif"], "--video is episode.gif: name an .mp4"),
        (["run", "--episodes", "0"], "--episodes is 0: it must be at least 1"),
        (["run", "--seed", "-1"], "--seed is -1: it must be at least 0"),
        (["run", "--video", "v.mp4", "--target-return", "nan"], "target-return is 'nan': it must be a number"),
        (["cloning", "--video", "v.mp4", "--target-return", "5"], "cloning clones its data and is asked for no return"),
        (["nowhere", "--video", "v.mp4"], "nowhere is not a run folder"),
        (["run", "--video", "v.mp4"], "nothing renders here (no EGL); on Linux, libegl1"),
    ],
)
@pytest.mark.usefixtures("runs")
def test_what_cannot_be_played_is_one_sentence(
    inline_cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    def crashes(*arguments: object, **options: object) -> object:
        return type("Done", (), {"stderr": "Traceback\nno EGL\n", "returncode": -6})

    monkeypatch.setattr(command, "has_screen", lambda: False)
    monkeypatch.setattr(rendering.subprocess, "run", crashes)
    done = inline_cli("play", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("*.mp4"))


@pytest.mark.usefixtures("runs")
def test_play_prints_return_and_score_of_every_episode(
    inline_cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {}

    def film(
        agent: Path, path: Path, target: float | None, episodes: int, seed: int, **options: object
    ) -> list[Moment]:
        asked.update(agent=agent, path=path, target=target, episodes=episodes, seed=seed)
        return [Moment(200, -875.0, True), Moment(200, -150.0, True)]

    monkeypatch.setattr("decision_rnn.evaluation.video.film", film)
    done = inline_cli("play", "run", "--video", "a.mp4", "--episodes", "2", "--seed", "4", "--target-return", "-300")
    assert done.returncode == 0, done.stderr
    expected = {"agent": Path("run/checkpoints/10"), "path": Path("a.mp4"), "target": -300, "episodes": 2, "seed": 4}
    assert asked == expected
    assert done.stdout.splitlines()[1:] == [
        "seed 4: asked -300, return -875.0, normalised score 50.0, 200 steps",
        "seed 5: asked -300, return -150.0, normalised score 100.0, 200 steps",
        "written to a.mp4",
    ]
    inline_cli("play", "cloning", "--video", "a.mp4")
    assert (asked["target"], asked["episodes"], asked["seed"]) == (None, 1, 1_000_000)


@pytest.mark.usefixtures("runs")
def test_a_window_that_does_not_open_is_one_sentence(inline_cli: CLI, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("GLFW:\ncannot open display")

    monkeypatch.setattr(command, "has_screen", lambda: True)
    monkeypatch.setattr("decision_rnn.evaluation.play.play", refuse)
    monkeypatch.setattr("decision_rnn.evaluation.play.watched_environment", lambda name: io.BytesIO())
    done = inline_cli("play", "run")
    assert done.returncode == 2
    assert "no window can be opened here (GLFW: cannot open display): to write a film instead" in done.stderr


@pytest.mark.slow
def test_a_hopper_is_filmed_and_stays_in_the_picture(inline_cli: CLI, tmp_path: Path) -> None:
    """Skipped where neither EGL nor OSMesa renders."""
    done = inline_cli(
        "play", "pretrained/hopper-medium", "--video", "hopper.mp4", "--target-return", "1800", "--seed", "3"
    )
    if "nothing renders here" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    steps = int(done.stdout.splitlines()[1].split()[-2])
    with av.open(str(tmp_path / "hopper.mp4")) as container:
        (stream,) = container.streams.video
        assert stream.codec_context.name == "h264"
        assert float(stream.average_rate) == pytest.approx(31.25)  # 125 steps a second, every fourth of them
        frames = [frame.to_ndarray(format="rgb24").astype(int) for frame in container.decode(video=0)]
    assert len(frames) in (steps // 4 + 1, steps // 4 + 2)
    assert steps > 100
    for frame in frames:  # the body is the one thing that is redder than it is blue
        red = (frame[..., 0] - frame[..., 2]) > 40
        assert red[40:].mean() > 0.005
        assert np.flatnonzero(red.any(0)).mean() == pytest.approx(200, abs=60)
