"""`decision-rnn play`: videos and screen windows of agents, and the returns that it prints."""

import contextlib
import io
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import av
import gymnasium
import numpy as np
import pytest
import yaml

from decision_rnn.cli import play as command
from decision_rnn.config import EvaluationConfig, to_dict
from decision_rnn.environments.environments import make_environment
from decision_rnn.evaluation import video
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.video import Moment
from decision_rnn.training.checkpoint import TrainedAgent, load_agent, save_checkpoint

WINDOWED = EvaluationConfig(inference="window", window=1, episodes=1, target_returns=(-300.0,))
CLI = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def runs(tmp_path: Path, pendulum: Callable[..., TrainedAgent]) -> None:
    """Three runs in the working folder: `run`, `cloning`, and `windowed`, which is evaluated with a window."""
    for name in ("run", "cloning", "windowed"):
        trained = pendulum(cloning=name == "cloning")
        if name == "windowed":
            trained = replace(trained, config=replace(trained.config, evaluation=WINDOWED))
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(yaml.safe_dump(to_dict(trained.config)))
        save_checkpoint(tmp_path / name, trained, {})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "there is no screen to open a window on: write a video instead"),
        (["run", "--video", "episode.gif"], "--video is episode.gif: name an .mp4"),
        (["run", "--episodes", "0"], "episodes is '0': it must be a whole number of at least 1"),
        (["run", "--seed", "-1"], "seed is '-1': it must be a whole number of at least 0"),
        (["run", "--video", "v.mp4", "--target_returns", "nan"], "target_returns is 'nan': it must be auto"),
        (
            ["cloning", "--video", "v.mp4", "--target_returns", "5"],
            "cloning clones its data and takes no target return",
        ),
        (["nowhere", "--video", "v.mp4"], "there is no run nowhere"),
        (["run", "--video", "v.mp4"], "nothing renders here (no EGL); on Linux, libegl1"),
    ],
)
@pytest.mark.usefixtures("runs")
def test_play_invalid_arguments_or_no_renderer_print_one_line(
    inline_cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.setattr(command, "has_screen", lambda: False)
    monkeypatch.setattr(video, "_run", lambda *arguments: (-6, "", ["Traceback", "no EGL"]))
    done = inline_cli("play", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("*.mp4"))


class Ended(Exception):  # noqa: N818 - not an error
    """The end of a process, with its exit code."""


def filmed_here(command: Sequence[str], environment: dict[str, str], timeout: float) -> tuple[int, str, list[str]]:
    """As `video._run`, in this process."""
    errors = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(errors), pytest.raises(Ended) as ended:
        patch.setattr("sys.argv", command[2:])
        patch.setattr("os._exit", lambda code: (_ for _ in ()).throw(Ended(code)))
        video.main()
    return ended.value.args[0], "", errors.getvalue().strip().splitlines()


UNDRAWN = """
import errno, gymnasium, numpy as np
from gymnasium.envs.classic_control import PendulumEnv

class Undrawn(PendulumEnv):
    {body}

gymnasium.registry.pop("Pendulum-v1", None)
gymnasium.register("Pendulum-v1", Undrawn, max_episode_steps=5)
"""


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (
            "def __init__(self): super().__init__()",
            2,
            "Pendulum-v1 cannot be made with render_mode rgb_array (TypeError(",
        ),
        (
            "def render(self): raise NotImplementedError",
            2,
            "the environment does not implement render, so there are no pictures of it\n",
        ),
        ("def render(self): raise NotImplementedError('soon')", 2, "so there are no pictures of it (soon)\n"),
        (
            "def render(self): raise gymnasium.error.DependencyNotInstalled('pygame is not installed')",
            2,
            "pygame is not installed",
        ),
        ("def render(self): raise KeyError('font')", 2, "the environment cannot be drawn (KeyError: 'font')"),
        ("def render(self): raise OSError(errno.ENOSPC, 'disk full')", 1, "cannot write a.mp4: disk full"),
        ("def render(self): return np.zeros((40, 40, 3), np.uint8)", 0, ""),
    ],
)
@pytest.mark.usefixtures("runs")
def test_play_says_why_there_are_no_pictures(
    inline_cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, code: int, words: str
) -> None:
    (tmp_path / "undrawn.py").write_text(UNDRAWN.format(body=body))
    monkeypatch.setitem(gymnasium.registry, "Pendulum-v1", gymnasium.registry["Pendulum-v1"])  # it is put back
    monkeypatch.delitem(sys.modules, "undrawn", raising=False)  # of another case
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    if code == 2:  # the others show that the process says so too
        monkeypatch.setattr(video, "_run", filmed_here)
    done = inline_cli("play", "run", "--video", "a.mp4", "--plugins", "undrawn")
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert ", 5 steps\n" in done.stdout if code == 0 else len(done.stderr.splitlines()) == 1


@pytest.mark.usefixtures("runs")
def test_play_prints_return_and_score_of_every_episode(inline_cli: CLI, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def film(
        agent: Path, path: Path, target: float | None, episodes: int, seed: int, **options: object
    ) -> list[Moment]:
        asked.update(agent=agent, path=path, target=target, episodes=episodes, seed=seed)
        return [Moment(200, -875.0, True), Moment(200, -150.0, True)]

    monkeypatch.setattr("decision_rnn.evaluation.video.film", film)
    done = inline_cli("play", "run", "--video", "a.mp4", "--episodes", "2", "--seed", "4", "--target_returns", "-300")
    assert done.returncode == 0, done.stderr
    expected = {"agent": Path("run/checkpoints/10"), "path": Path("a.mp4"), "target": -300, "episodes": 2, "seed": 4}
    assert asked == expected
    assert done.stdout.splitlines()[1:] == [
        "seed 4: target -300, return -875.0, normalised score 50.0, 200 steps",
        "seed 5: target -300, return -150.0, normalised score 100.0, 200 steps",
        "written to a.mp4",
    ]
    inline_cli("play", "cloning", "--video", "a.mp4")
    assert (asked["target"], asked["episodes"], asked["seed"]) == (None, 1, 1_000_000)


@pytest.mark.usefixtures("runs")
def test_play_uses_the_window_that_the_agent_is_evaluated_with(
    inline_cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On screen and in a video; the return equals that of `evaluate` with the same seed."""
    trained = load_agent(tmp_path / "windowed" / "checkpoints" / "10")
    (target,) = evaluate(trained, replace(WINDOWED, seed=7), processes=1).targets
    (carried,) = evaluate(trained, replace(WINDOWED, seed=7, inference="recurrent"), processes=1).targets
    assert abs(target.return_mean - carried.return_mean) > 1
    monkeypatch.setattr(command, "has_screen", lambda: True)
    monkeypatch.setattr(video, "watched_environment", lambda name, size=None: make_environment(name))
    done = inline_cli("play", "windowed", "--seed", "7")
    first, episode = done.stdout.splitlines()
    assert first == "mingru of local/pendulum in Pendulum-v1, window of 1"
    assert f"target -300, return {target.return_mean:.1f}, " in episode
    monkeypatch.setattr(video, "draw", lambda environment: None)
    monkeypatch.setattr(video, "label", lambda picture, target, moment: picture)
    monkeypatch.setattr(video, "write_video", lambda pictures, rate, path: list(pictures))
    (end,) = video._film(str(tmp_path / "windowed" / "checkpoints" / "10"), "a.mp4", "a.mp4", -300.0, 1, 7, None)
    assert end.earned == pytest.approx(target.return_mean, abs=1e-3)
    assert "carried state" in inline_cli("play", "run").stdout


@pytest.mark.usefixtures("runs")
def test_play_screen_window_that_cannot_open_prints_one_line(inline_cli: CLI, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("GLFW:\ncannot open display")

    monkeypatch.setattr(command, "has_screen", lambda: True)
    monkeypatch.setattr("decision_rnn.evaluation.video.play", refuse)
    monkeypatch.setattr("decision_rnn.evaluation.video.watched_environment", lambda name: io.BytesIO())
    done = inline_cli("play", "run")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    reason = "no window can be opened here, or it is gone (GLFW: cannot open display)"
    assert line == f"decision-rnn: {reason}: to write a video instead, use --video episode.mp4"


@pytest.mark.slow
def test_play_video_of_hopper_is_h264_and_keeps_the_body_in_the_picture(inline_cli: CLI, tmp_path: Path) -> None:
    """Skipped where neither EGL nor OSMesa renders."""
    done = inline_cli(
        "play", "pretrained/hopper-medium", "--video", "hopper.mp4", "--target_returns", "1800", "--seed", "3"
    )
    if "nothing renders here" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    steps = int(done.stdout.splitlines()[1].split()[-2])
    with av.open(str(tmp_path / "hopper.mp4")) as container:
        (stream,) = container.streams.video
        assert stream.codec_context.name == "h264"
        assert float(stream.average_rate) == pytest.approx(31.25)  # every fourth of 125 steps per second
        frames = [frame.to_ndarray(format="rgb24").astype(int) for frame in container.decode(video=0)]
    assert len(frames) in (steps // 4 + 1, steps // 4 + 2)
    assert steps > 100
    for frame in frames:  # only the body is redder than it is blue
        red = (frame[..., 0] - frame[..., 2]) > 40
        assert red[40:].mean() > 0.005
        assert np.flatnonzero(red.any(0)).mean() == pytest.approx(200, abs=60)
