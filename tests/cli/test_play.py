"""`decision-rnn play`: videos and screen windows of agents, and the returns that it prints."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import av
import gymnasium
import numpy as np
import pytest
import yaml
from gymnasium.envs.classic_control import PendulumEnv

from decision_rnn.config import EvaluationConfig, to_dict
from decision_rnn.evaluation import video
from decision_rnn.evaluation.evaluate import score
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent, save_checkpoint
from decision_rnn.utils.errors import InputError

WINDOWED = EvaluationConfig(inference="window", window=1, episodes=1, target_returns=(-300.0,))
CLI = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
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
    ("arguments", "name"),
    [
        ("run", "--video"),
        ("run --video episode.gif", "episode.gif"),
        ("run --episodes 0", "episodes"),
        ("run --video v.mp4 --target_return nan", "target_return"),
        ("run --video v.mp4 --target_return auto", "rtg_quantile"),
        ("run --output page --target_return auto", "rtg_quantile"),
        ("run --output page --episodes 2", "--episodes"),
        ("run run --video v.mp4", "a page takes neither"),
        ("cloning --video v.mp4 --target_return 5", "cloning"),
        ("nowhere --video v.mp4", "nowhere"),
        ("run --video v.mp4", "no EGL"),
    ],
)
def test_invalid_arguments_or_no_renderer_print_one_line(
    inline_cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, name: str
) -> None:
    def refuse(self: gymnasium.Env) -> None:
        raise RuntimeError("no EGL")

    monkeypatch.setattr(video, "SCREENS", set())
    monkeypatch.setattr(PendulumEnv, "render", refuse)
    done = inline_cli("play", *arguments.split())
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert name in line
    assert not list(tmp_path.glob("*.mp4"))


def test_video_is_written_of_rendered_pictures(
    inline_cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gymnasium.spec("Pendulum-v1"), "max_episode_steps", 5)
    monkeypatch.setattr(PendulumEnv, "render", lambda environment: np.zeros((40, 40, 3), np.uint8))
    done = inline_cli("play", "run", "--video", "a.mp4")
    assert done.returncode == 0, done.stderr
    assert ", 5 steps\n" in done.stdout
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert len(list(container.decode(video=0))) == 6
    monkeypatch.setattr(PendulumEnv, "render", lambda environment: [3])
    assert "'list'" in inline_cli("play", "run", "--video", "b.mp4").stderr


@pytest.mark.skipif(sys.platform != "linux", reason="EGL is Linux's")
def test_backend_is_chosen_before_any_environment_is_made(inline_cli: CLI, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo chooses the backend of its own renderer, which OGBench uses, once it is imported."""
    backends, make = [], PendulumEnv.__init__

    def initialise(environment: PendulumEnv, **settings: object) -> None:
        backends.append(os.environ.get("MUJOCO_GL"))
        make(environment, **settings)

    for variable in ("MUJOCO_GL", *video.SCREENS):
        monkeypatch.setenv(variable, "")  # restored even if it is not set
        monkeypatch.delenv(variable)
    monkeypatch.setattr(PendulumEnv, "__init__", initialise)
    monkeypatch.setattr(PendulumEnv, "render", lambda environment: np.zeros((40, 40, 3), np.uint8))
    monkeypatch.setattr(gymnasium.spec("Pendulum-v1"), "max_episode_steps", 5)
    done = inline_cli("play", "run", "--video", "a.mp4")
    assert done.returncode == 0, done.stderr
    assert set(backends) == {"egl"}


def test_play_prints_return_and_score_of_every_episode(inline_cli: CLI, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def film(agent: TrainedAgent, *arguments: object) -> list[video.Moment]:
        calls.append((agent.step, *arguments))
        return [video.Moment(200, -875.0, True), video.Moment(200, -150.0, True)]

    monkeypatch.setattr("decision_rnn.cli.play.film", film)
    done = inline_cli("play", "run", "--video", "a.mp4", "--episodes", "2", "--seed", "4", "--target_return", "-300")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [
        "seed 4: target -300, return -875.0, normalised score 50.0, 200 steps",
        "seed 5: target -300, return -150.0, normalised score 100.0, 200 steps",
        "written to a.mp4",
    ]
    inline_cli("play", "cloning", "--video", "a.mp4")
    assert calls == [(10, Path("a.mp4"), -300, 2, 4), (10, Path("a.mp4"), None, 1, 1_000_000)]


@pytest.mark.usefixtures("no_screen")
def test_play_uses_the_window_that_the_agent_is_evaluated_with(inline_cli: CLI, tmp_path: Path) -> None:
    """On screen and in a video; the return equals that of `evaluate` with the same seed."""
    trained = load_agent(tmp_path / "windowed" / "checkpoints" / "10")
    (target,) = score(trained, replace(WINDOWED, seed=7), processes=1).targets
    (carried,) = score(trained, replace(WINDOWED, seed=7, inference="recurrent"), processes=1).targets
    assert abs(target.return_mean - carried.return_mean) > 1
    first, episode = inline_cli("play", "windowed", "--seed", "7").stdout.splitlines()
    assert first == "mingru of local/pendulum in Pendulum-v1, window of 1"
    assert f"target -300, return {target.return_mean:.1f}, " in episode
    (end,) = video.film(trained, Path("a.mp4"), -300.0, 1, 7)
    assert end.earned == pytest.approx(target.return_mean, abs=1e-3)
    assert "carried state" in inline_cli("play", "run").stdout


@pytest.mark.usefixtures("no_screen")
def test_no_video_shows_another_environment_than_that_of_the_data(pendulum: Callable[..., TrainedAgent]) -> None:
    trained = pendulum()
    data = replace(trained.provenance, environment_settings={"kwargs": {"g": 1.0}})
    with pytest.raises(InputError, match=r"Pendulum-v1 with kwargs \{'g': 1.0\}"):
        video.film(replace(trained, provenance=data), Path("a.mp4"), -300.0, 1, 7)


@pytest.mark.slow
def test_video_of_hopper_is_h264_with_the_body_in_the_picture(inline_cli: CLI, tmp_path: Path) -> None:
    """Skipped where neither EGL nor OSMesa renders."""
    words = ["play", "pretrained/hopper-medium", "--video", "hopper.mp4", "--target_return", "1800", "--seed", "3"]
    done = inline_cli(*words)
    if "cannot render" in done.stderr:
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
