"""Renders clips, as a process of its own: how MuJoCo draws is decided where it is imported, by MUJOCO_GL, and a driver
that does not work can end the process.

    python -m decision_rnn.comparison.page.render < jobs.json

`jobs.json` holds `{"folder": ..., "plugins": [...], "jobs": [{"run", "target_return", "window"}, ...]}`. Job i leaves
`i.webp`, its still picture `i-still.webp`, and last `i.json`: what was played, or why it could not be.
"""

import io
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from PIL import Image

from decision_rnn.checkpoint import last_checkpoint, load_agent
from decision_rnn.data.environments import make_environment
from decision_rnn.errors import InputError
from decision_rnn.evaluation.actor import WindowActor
from decision_rnn.plugins import import_plugins

SECONDS = 5.0
"""At most: what moves for longer on a page needs a button to stop it (WCAG 2.2.2)."""
FRAMES_PER_SECOND = 15
SIZE = 240
"""Pixels of a side."""
LARGEST = 300_000
"""Bytes of a clip."""


def play(run: Path, target_return: float | None, window: int | None) -> tuple[list[Image.Image], dict[str, Any]]:
    """The first seconds of the last checkpoint's first episode, at the environment's own speed.

    Args:
        run: Its folder.
        target_return: What the agent is asked for; None in cloning.
        window: Steps that are re-run for every action; None where the state is carried.

    Returns:
        The frames, and what was played: `milliseconds` a frame, `seconds`, `return`, and whether the episode `ended`.
    """
    trained = load_agent(last_checkpoint(run))
    spec = trained.provenance.spec
    settings: dict[str, Any] = {"render_mode": "rgb_array"}
    if "mujoco" in str(gymnasium.registry[spec.environment_id].entry_point):
        settings |= {"width": SIZE, "height": SIZE}  # drawn in software, where every pixel costs
    environment = make_environment(spec.environment_id, **settings)
    actor = trained.agent if window is None else WindowActor(trained.agent, window)
    speed = float(environment.metadata.get("render_fps") or 30)
    every = max(1, round(speed / FRAMES_PER_SECOND))
    observation, _ = environment.reset(seed=trained.config.evaluation.seed)
    frames, total, steps, reward, ended = [_frame(environment)], 0.0, 0, 0.0, False
    with torch.inference_mode():
        state = actor.initial_state(torch.tensor([target_return or 0.0]))
        while not ended and steps < SECONDS * speed - every:
            seen = torch.from_numpy(np.asarray(observation, np.float32))[None]
            action, state = actor.act(seen, torch.tensor([reward], dtype=torch.float32), None, state)
            observation, earned, terminated, truncated, _ = environment.step(action[0].cpu().numpy())
            reward = float(earned)
            total, steps, ended = total + reward, steps + 1, terminated or truncated
            if steps % every == 0 or ended:
                frames.append(_frame(environment))
    played = {"milliseconds": 1000 * every / speed, "seconds": steps / speed, "return": total, "ended": ended}
    return frames, played


def write_clip(frames: list[Image.Image], milliseconds: float, path: Path) -> None:
    """Animated WebP that plays once, as good as `LARGEST` bytes allow."""
    for quality in (65, 40, 20):
        buffer = io.BytesIO()
        frames[0].save(buffer, "WEBP", save_all=True, append_images=frames[1:], duration=round(milliseconds), loop=1,
                       quality=quality, method=4)  # fmt: skip
        if buffer.tell() <= LARGEST:
            break
    path.write_bytes(buffer.getvalue())


def _frame(environment: gymnasium.Env) -> Image.Image:
    drawn = environment.render()
    if not isinstance(drawn, np.ndarray):
        raise InputError("the environment does not render pictures")
    picture = Image.fromarray(drawn)
    picture.thumbnail((SIZE, SIZE))
    return picture


def main() -> None:
    asked = json.load(sys.stdin)
    import_plugins(asked["plugins"])
    torch.set_num_threads(1)
    for i, job in enumerate(asked["jobs"]):
        path = Path(asked["folder"]) / f"{i}.webp"
        try:
            frames, played = play(Path(job["run"]), job["target_return"], job["window"])
            write_clip(frames, played["milliseconds"], path)
            frames[-1].save(path.with_stem(f"{i}-still"), "WEBP", quality=65)
        except InputError as error:
            played = {"error": str(error)}
        path.with_suffix(".json").write_text(json.dumps(played))


if __name__ == "__main__":
    status = 0
    try:
        main()
    except Exception:
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)  # a driver's own way of ending may abort or complain
