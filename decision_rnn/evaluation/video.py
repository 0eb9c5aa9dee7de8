"""Plays single episodes for a viewer: in a window, or as a video or clip.

Videos are recorded without a display, in a process of its own: MuJoCo chooses its driver on import, by MUJOCO_GL, and a
driver that does not work can end the process.

    python -m decision_rnn.evaluation.video '[arguments of _film, and plugins]'

prints a line for every picture and the last moments of the episodes as JSON in its last line, or exits with an error in
the last line of stderr.
"""

import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import gymnasium
import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from decision_rnn.environments.environments import MissingEnvironmentError, make_environment, registered
from decision_rnn.environments.playing import play_together
from decision_rnn.evaluation.actor import Actor, actor_of
from decision_rnn.evaluation.evaluate import EvaluatedPolicy, step_limits
from decision_rnn.evaluation.rollout import GroupPolicy, step_limit
from decision_rnn.training.checkpoint import TrainedAgent, load_agent
from decision_rnn.utils.errors import FULL, EnvironmentFailure, InputError, cannot_write
from decision_rnn.utils.files import new_file
from decision_rnn.utils.messages import bar
from decision_rnn.utils.parsing import AUTO, format_target
from decision_rnn.utils.plugins import import_plugins

FORMATS = {".mp4": (400, 30), ".webp": (240, 15)}
"""Width and height in pixels, and largest frame rate, of videos and of clips; an episode is shown at the environment's
own speed."""
CLIP_BYTES = 300_000
"""Largest size of a clip; exceeded only if the lowest quality does not fit."""
DRIVERS = ("egl", "osmesa") if sys.platform == "linux" else ("",)
"""MuJoCo's drivers without a display, in the order in which they are tried."""
TIMEOUT = 600.0
"""Timeout in seconds per episode, including loading."""
FAULTS: dict[int, type[Exception]] = {2: InputError, 3: EnvironmentFailure}
"""Exit codes of the process for errors that another driver does not mend."""
DRIVER_MODULES = ("mujoco", "OpenGL", "gymnasium.envs.mujoco")
"""The modules in which a driver that does not work raises an error, of any class."""


class Moment(NamedTuple):
    """The state of an episode: steps taken so far, their undiscounted return, and whether it is over."""

    steps: int
    earned: float
    ended: bool


def play(
    actor: Actor,
    environment: gymnasium.Env,
    target_return: float | None,
    seed: int,
    max_episode_steps: int | None = None,
    longest_episode: int | None = None,
) -> Iterator[Moment]:
    """Play an episode; yields a moment at its beginning and one after every step.

    The episode is the same as in a rollout of one episode with this seed. Torch's global generator is seeded too.

    Args:
        actor: In evaluation mode, on the CPU.
        environment: From `make_environment`, with flat Box spaces.
        target_return: The target return; None in behaviour cloning.
        seed: The episode begins with the environment's reset(seed).
        max_episode_steps: As in `EvaluationConfig`.
        longest_episode: As in `DataSummary`.
    """
    torch.manual_seed(seed)
    observation, _ = environment.reset(seed=seed)
    policy, moment = GroupPolicy(actor, environment, [target_return or 0.0]), Moment(0, 0.0, False)
    assert environment.spec is not None  # it was made by its id
    yield moment
    limit = step_limit(environment.spec.id, max_episode_steps, longest_episode)
    for step in play_together([environment], [observation], policy, limit):
        moment = Moment(moment.steps + 1, moment.earned + float(step.rewards[0]), bool(step.over[0]) or step.cut)
        yield moment


def watched_environment(environment_id: str | None, size: int | None = None) -> gymnasium.Env:
    """Make the environment for viewing: as images, `size` by `size` pixels with MuJoCo, or in a window without `size`.

    With MuJoCo the camera follows the body; with Gymnasium 1.4's default camera it runs out of sight. Images have no
    shadows and no reflections, which take three quarters of the time when rendered in software.
    """
    settings: dict[str, Any] = {"render_mode": "human" if size is None else "rgb_array"}
    spec = registered(environment_id)
    if spec is not None and str(spec.entry_point).startswith("gymnasium.envs.mujoco"):
        settings["camera_name"] = "track"  # without a camera of that name, Gymnasium uses its default
        if size is not None:
            settings |= {"width": size, "height": size}
    try:
        environment = make_environment(environment_id, **settings)
    except MissingEnvironmentError as error:
        make_environment(environment_id).close()  # raises if it cannot be made without pictures either
        raise InputError(
            f"{environment_id} cannot be made with render_mode {settings['render_mode']} ({error.__cause__!r:.200}), "
            "and so not be watched: let its class take that render_mode"
        ) from None
    model: Any = None
    with contextlib.suppress(AttributeError, ValueError):  # ValueError: OGBench's is made by its first reset
        model = environment.unwrapped.model  # type: ignore[attr-defined]
    if size is not None and hasattr(model, "light_castshadow") and hasattr(model, "mat_reflectance"):
        model.light_castshadow[:] = 0
        model.mat_reflectance[:] = 0
    return environment


def draw(environment: gymnasium.Env) -> Image.Image:
    """Render the environment's current state as an image; InputError if it does not render images."""
    drawn = environment.render()
    if not isinstance(drawn, np.ndarray):
        raise InputError("the environment does not render pictures: its render returns no array with rgb_array")
    return Image.fromarray(drawn)


def film(
    agent: Path,
    video: Path,
    target_return: float | None,
    episodes: int,
    seed: int | None,
    seconds: float | None = None,
    plugins: Sequence[str] = (),
    shown: Path | None = None,
) -> list[Moment]:
    """Write an mp4 (H.264) or an animated WebP of consecutive episodes, with the target return and the return so far
    written on it.

    The agent acts as its run is configured for evaluation: it carries its state or re-runs a window.

    Args:
        agent: A folder that `load_agent` accepts, or the file of an exported policy.
        video: The file, ending in .mp4 or .webp, replaced once the video is complete.
        target_return: The target return; None in behaviour cloning.
        episodes: Number of episodes.
        seed: Episode i begins with the environment's reset(seed + i); None for the seed of the run's evaluation.
        seconds: The most seconds of an episode to play; None for all of it.
        plugins: Modules that the agent or its environment needs.
        shown: The file in messages, if it will be moved there; otherwise `video`.

    Returns:
        The last moment of each episode.

    Raises:
        InputError: If nothing can be rendered here, or the agent cannot be used.
        EnvironmentFailure: If the disk is full.
    """
    with new_file(video) as new:
        asked = [str(agent), str(new), str(shown or video), target_return, episodes, seed, seconds, list(plugins)]
        return [Moment(*moment) for moment in _with_drivers(json.dumps(asked), TIMEOUT * episodes)]


def _with_drivers(asked: str, timeout: float) -> Any:
    """The last line that this file's program prints, from JSON, with the first driver that works; InputError if none
    does."""
    reason = ""
    for driver in (os.environ["MUJOCO_GL"],) if os.environ.get("MUJOCO_GL") else DRIVERS:
        environment = os.environ | ({"MUJOCO_GL": driver} if driver else {})
        command = [sys.executable, "-m", "decision_rnn.evaluation.video", asked]
        code, last, errors = _run(command, environment, timeout)
        if code == 0:
            return json.loads(last)
        reason = errors[-1] if errors else f"it ended with {code} within {timeout:.0f} seconds"
        if code in FAULTS:
            raise FAULTS[code](reason)
    raise InputError(
        f"nothing renders here ({reason[:200]}); on Linux, libegl1 with libegl-mesa0, or libosmesa6, lets it"
    )


def _run(command: Sequence[str], environment: dict[str, str], timeout: float) -> tuple[int, str, list[str]]:
    """Run the program, with a bar of its pictures; returns its exit code, its last line and the lines of its stderr."""
    with (
        tempfile.TemporaryFile("w+") as errors,
        bar(desc="filming", unit="picture", leave=False) as shown,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        expiry, last = threading.Timer(timeout, process.kill), ""
        expiry.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                shown.update()
                last = line
            code = process.wait()
        finally:
            expiry.cancel()
            process.kill()
        errors.seek(0)
        return code, last, errors.read().strip().splitlines()


def main() -> None:
    """Film what the argument asks for, and end the process: a driver's exit handlers may abort or print errors."""
    *asked, plugins = json.loads(sys.argv[1])
    status = 0
    try:
        import_plugins(plugins)
        torch.set_num_threads(1)
        print(json.dumps(_film(*asked)))
    except Exception as error:
        traceback.print_exc()
        fault = _fault(error, asked[2])  # the user's name of the file that is being written
        status = next((code for code, kind in FAULTS.items() if isinstance(fault, kind)), 1)
        if fault is not None:
            print(" ".join(str(fault).split()), file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _fault(error: Exception, file: str) -> Exception | None:
    """The error for the user if it is not one of MuJoCo's driver, which another driver may mend."""
    if isinstance(error, InputError | EnvironmentFailure):
        return error
    if isinstance(error, OSError) and error.errno in FULL:
        return cannot_write(file, error)
    if isinstance(error, gymnasium.error.DependencyNotInstalled):
        return InputError(f"the environment cannot be drawn: {error}")
    if isinstance(error, NotImplementedError):
        reason = f" ({error})" if str(error) else ""
        return InputError(f"the environment does not implement render, so there are no pictures of it{reason}")
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    if any(module == name or module.startswith(f"{name}.") for module in modules for name in DRIVER_MODULES):
        return None
    return InputError(f"the environment cannot be drawn ({type(error).__name__}: {error})")


def _film(
    folder: str,
    file: str,
    video: str,
    target_return: float | None,
    episodes: int,
    seed: int | None,
    seconds: float | None,
) -> list[Moment]:
    if Path(folder).suffix == ".onnx":
        from decision_rnn.evaluation.policies import load_policy  # here: it needs onnxruntime

        trained: TrainedAgent | EvaluatedPolicy = load_policy(Path(folder))
    else:
        trained = load_agent(Path(folder))
    settings = trained.config.evaluation
    first = settings.seed if seed is None else seed
    actor = trained.actor if isinstance(trained, EvaluatedPolicy) else actor_of(trained.agent, settings)
    suffix = Path(video).suffix
    size, rate = FORMATS[suffix]
    limits = step_limits(settings, trained.provenance)
    environment = watched_environment(settings.environment_id or trained.provenance.environment_id, size)
    speed = float(environment.metadata.get("render_fps") or 30)
    every = max(1, round(speed / rate))
    ends = []

    def pictures() -> Iterator[Image.Image]:
        for episode in range(episodes):
            for moment in play(actor, environment, target_return, first + episode, *limits):
                over = moment.ended or (seconds is not None and moment.steps >= seconds * speed - every)
                if moment.steps % every == 0 or over:
                    print("picture", flush=True)
                    yield label(draw(environment), target_return, moment)
                if over:
                    break
            ends.append(moment)

    if suffix == ".mp4":
        write_video(pictures(), Fraction(speed / every).limit_denominator(1000), Path(file))
    else:
        write_clip(list(pictures()), 1000 * every / speed, Path(file))
    return ends


def label(picture: Image.Image, target_return: float | None, moment: Moment) -> Image.Image:
    """Write the target return, the return so far and the return-to-go along the upper edge of a picture, in place."""
    words = [f"earned {moment.earned:.0f}", f"step {moment.steps}"]
    if target_return is not None:
        left = [] if target_return == AUTO else [f"to go {target_return - moment.earned:.0f}"]
        words = [f"target {format_target(target_return)}", words[0], *left, words[1]]
    font = ImageFont.load_default(size=max(8, picture.width // 26))
    pen = ImageDraw.Draw(picture)
    pen.text((6, 4), "   ".join(words), font=font, fill="white", stroke_width=1, stroke_fill="black")
    return picture


def write_video(pictures: Iterator[Image.Image], rate: Fraction, path: Path) -> None:
    """Write pictures of one size as an mp4 that browsers can play, at `rate` frames per second."""
    first = next(pictures)
    width, height = first.width // 2 * 2, first.height // 2 * 2  # yuv420p needs even numbers
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": "28"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for picture in itertools.chain([first], pictures):
            frame = av.VideoFrame.from_image(picture.convert("RGB").crop((0, 0, width, height)))
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def write_clip(frames: Sequence[Image.Image], milliseconds: float, path: Path) -> None:
    """Write an animated WebP that plays once, in the best of three qualities that fits into `CLIP_BYTES`."""
    for frame in frames:
        frame.thumbnail(FORMATS[".webp"][:1] * 2)
    for quality in (65, 40, 20):
        buffer = io.BytesIO()
        frames[0].save(buffer, "WEBP", save_all=True, append_images=frames[1:], duration=round(milliseconds), loop=1,
                       quality=quality, method=4)  # fmt: skip
        if buffer.tell() <= CLIP_BYTES:
            break
    path.write_bytes(buffer.getvalue())


if __name__ == "__main__":
    main()
