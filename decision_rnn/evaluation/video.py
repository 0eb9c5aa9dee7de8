"""Plays single episodes for a viewer: in a window, or as an mp4."""

import contextlib
import itertools
import math
import os
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import torch
from PIL import Image, ImageDraw, ImageFont

from decision_rnn.environments.playing import play_together, step_limit
from decision_rnn.environments.registry import make_environment, registered
from decision_rnn.evaluation.acting import Actor
from decision_rnn.evaluation.actor import ExportedPolicy, actor_of
from decision_rnn.evaluation.evaluate import evaluation_environment, step_limits
from decision_rnn.evaluation.rollout import GroupPolicy, one_thread
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError, importing, one_line
from decision_rnn.utils.files import new_file
from decision_rnn.utils.messages import progress_bar
from decision_rnn.utils.parsing import AUTO, format_target

SIZE, FRAME_RATE = 400, 30
"""Width and height of a video in pixels, with MuJoCo, and its largest frame rate; episodes play at their own speed."""

SCREENS = {"DISPLAY", "WAYLAND_DISPLAY"}
"""Environment variables that name a screen."""


class Moment(NamedTuple):
    """The state of an episode: steps taken so far, their undiscounted return, and whether it is over."""

    steps: int
    earned: float
    ended: bool


def moments(
    actor: Actor[Any],
    environment: gymnasium.Env,
    target_return: float | None,
    seed: int,
    limits: tuple[int | None, int | None] = (None, None),
) -> Iterator[Moment]:
    """Play the episode that begins with reset(seed), as `rollout` does; yields a moment at its beginning and one after
    every step. Torch's global generator is seeded too. `limits` are those of `step_limit`."""
    torch.manual_seed(seed)
    observation, _ = environment.reset(seed=seed)
    policy, moment = GroupPolicy(actor, environment, [target_return or 0.0]), Moment(0, 0.0, False)
    yield moment
    for step in play_together([environment], [observation], policy, step_limit(environment, *limits)):
        moment = Moment(moment.steps + 1, moment.earned + float(step.rewards[0]), bool(step.over[0]) or step.cut)
        yield moment


def watched_environment(environment_id: str | None, size: int | None = None) -> gymnasium.Env:
    """The environment as images, `size` by `size` pixels with MuJoCo, or in a window without `size`.

    With MuJoCo the camera follows the body; with Gymnasium 1.4's default camera it runs out of sight. Images have no
    shadows and no reflections, which take three quarters of the time when rendered in software.
    """
    options: dict[str, Any] = {"render_mode": "human" if size is None else "rgb_array"}
    spec = registered(environment_id)
    if spec is not None and str(spec.entry_point).startswith("gymnasium.envs.mujoco"):
        options["camera_name"] = "track"  # without a camera of that name, Gymnasium uses its default
        options |= {} if size is None else {"width": size, "height": size}
    environment = make_environment(environment_id, **options)
    with contextlib.suppress(AttributeError, ValueError):  # no MuJoCo, or OGBench's, which is made by its first reset
        model: Any = environment.unwrapped.model  # type: ignore[attr-defined]
        model.light_castshadow[:] = size is None
        model.mat_reflectance[:] *= size is None
    return environment


def choose_backend() -> None:
    """Have MuJoCo render by EGL if there is no screen and MUJOCO_GL names no backend.

    Environments with a renderer of MuJoCo's own, such as OGBench's, need this before MuJoCo is imported.
    """
    if sys.platform == "linux" and not SCREENS & os.environ.keys():
        os.environ.setdefault("MUJOCO_GL", "egl")


def film(
    policy: TrainedAgent | ExportedPolicy,
    path: Path,
    target_return: float | None,
    episodes: int,
    seed: int,
    seconds: float = math.inf,
) -> list[Moment]:
    """Write an mp4 (H.264) of consecutive episodes, with the target return and the return so far written on it. Without
    a screen MuJoCo renders by EGL, unless MUJOCO_GL names another backend.

    Args:
        policy: The agent, which acts as its run is configured for evaluation, or an exported policy.
        path: The file, replaced once the video is complete.
        target_return: None in behaviour cloning.
        seed: Episode i begins with the environment's reset(seed + i).
        seconds: The most seconds of an episode to play.

    Returns:
        The last moment of each episode.

    Raises:
        InputError: If the file is not named .mp4, or the environment is not that of the agent's evaluation or cannot be
            rendered here.
    """
    if path.suffix != ".mp4":
        raise InputError(f"{path} must end in .mp4")
    choose_backend()
    actor, environment_id, limits = _prepare(policy)
    ends = []

    def frames(environment: gymnasium.Env, every: int, speed: float) -> Iterator[Image.Image]:
        with progress_bar(desc="filming", unit="picture", leave=False) as progress:
            for number in range(seed, seed + episodes):
                for moment in moments(actor, environment, target_return, number, limits):
                    over = moment.ended or moment.steps >= seconds * speed - every
                    if moment.steps % every == 0 or over:
                        progress.update()
                        yield label(draw(environment), target_return, moment)
                    if over:
                        break
                ends.append(moment)

    with one_thread(), contextlib.closing(watched_environment(environment_id, SIZE)) as environment:
        speed = float(environment.metadata.get("render_fps") or 30)
        every = max(1, round(speed / FRAME_RATE))
        with new_file(path) as new:
            write_video(frames(environment, every, speed), Fraction(speed / every).limit_denominator(1000), new)
    return ends


def watch(
    policy: TrainedAgent | ExportedPolicy, target_return: float | None, episodes: int, seed: int
) -> Iterator[Moment]:
    """Play consecutive episodes in a window, as `film` plays them; yields the last moment of each. InputError if no
    window can be opened here."""
    actor, environment_id, limits = _prepare(policy)
    with contextlib.ExitStack() as stack:
        with rendering():
            if sys.platform == "linux" and not SCREENS & os.environ.keys():
                raise OSError("there is no screen")
            environment = stack.enter_context(contextlib.closing(watched_environment(environment_id)))
            environment.reset(seed=seed)  # opens the window
        for number in range(seed, seed + episodes):
            *_, end = moments(actor, environment, target_return, number, limits)
            yield end


def _prepare(policy: TrainedAgent | ExportedPolicy) -> tuple[Actor[Any], str, tuple[int | None, int | None]]:
    """A policy's actor, the id of its environment, and the limits of its episodes' lengths."""
    settings, data = policy.config.evaluation, policy.provenance
    return actor_of(policy, settings), evaluation_environment(settings, data), step_limits(settings, data)


@contextlib.contextmanager
def rendering() -> Iterator[None]:
    """Errors inside the block, which environments and backends have of their own, are InputError."""
    try:
        yield
    except Exception as error:
        raise InputError(
            f"cannot render ({type(error).__name__}: {one_line(error, 200)}): use --video or --browser, or set "
            "MUJOCO_GL to a backend that works here, such as egl or osmesa"
        ) from error


def draw(environment: gymnasium.Env) -> Image.Image:
    """Render the environment's current state as an image; InputError if it cannot be rendered."""
    with rendering():
        return Image.fromarray(environment.render())  # type: ignore[arg-type]


def label(picture: Image.Image, target_return: float | None, moment: Moment) -> Image.Image:
    """Write the target return, the return so far and the return-to-go along the upper edge of a picture, in place."""
    words = [f"return {moment.earned:.4g}", f"step {moment.steps}"]
    if target_return is not None:
        words.insert(0, f"target {format_target(target_return)}")
        if target_return != AUTO:
            words.insert(2, f"to go {target_return - moment.earned:.4g}")
    font = ImageFont.load_default(size=max(8, picture.width // 26))
    pen = ImageDraw.Draw(picture)
    pen.text((6, 4), "   ".join(words), font=font, fill="white", stroke_width=1, stroke_fill="black")
    return picture


def write_video(pictures: Iterator[Image.Image], rate: Fraction, path: Path) -> None:
    """Write pictures of one size as an mp4 that browsers can play, at `rate` frames per second."""
    with importing("a video", "video"):
        import av
    first = next(pictures)
    width, height = first.width // 2 * 2, first.height // 2 * 2  # yuv420p needs even numbers
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": "28"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for picture in itertools.chain([first], pictures):
            frame = av.VideoFrame.from_image(picture.convert("RGB").crop((0, 0, width, height)))
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
