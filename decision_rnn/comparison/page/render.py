"""Renders clips in a process of its own.

    python -m decision_rnn.comparison.page.render < jobs.json

`jobs.json` holds `{"folder": ..., "plugins": [...], "jobs": [{"run", "target_return", "window"}, ...]}`. Job i writes
`i.webp`, the still picture `i-still.webp`, and last `i.json`, which describes the clip or the error.
"""

import io
import json
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from decision_rnn.checkpoint import last_checkpoint, load_agent
from decision_rnn.errors import InputError
from decision_rnn.evaluation.actor import actor_of, prepare_to_act
from decision_rnn.evaluation.play import draw, play, watched_environment
from decision_rnn.evaluation.rendering import run_program
from decision_rnn.plugins import import_plugins

SECONDS = 5.0
"""Longest clip: animations longer than this need a button to stop them (WCAG 2.2.2)."""
FRAMES_PER_SECOND = 15
SIZE = 240
"""Width and height in pixels."""
LARGEST = 300_000
"""Largest size of a clip in bytes; exceeded only if the lowest quality does not fit."""


def clip(run: Path, target_return: float | None, window: int | None) -> tuple[list[Image.Image], dict[str, Any]]:
    """The first seconds of the last checkpoint's first episode, at the environment's own speed.

    Args:
        run: Folder of the run.
        target_return: The target return; None in behaviour cloning.
        window: Number of steps that are re-run for every action; None where the state is carried.

    Returns:
        The frames, and a description: `milliseconds` per frame, `seconds`, `return`, and whether the episode `ended`.
    """
    trained = load_agent(last_checkpoint(run))
    environment = watched_environment(trained.provenance.environment_id, SIZE)
    actor = actor_of(prepare_to_act(trained.agent), window)
    speed = float(environment.metadata.get("render_fps") or 30)
    every = max(1, round(speed / FRAMES_PER_SECOND))
    frames = []
    for moment in play(actor, environment, target_return, trained.config.evaluation.seed):
        if moment.steps % every == 0 or moment.ended:
            frames.append(draw(environment))
            frames[-1].thumbnail((SIZE, SIZE))
        if moment.steps >= SECONDS * speed - every:
            break
    return frames, {
        "milliseconds": 1000 * every / speed,
        "seconds": moment.steps / speed,
        "return": moment.earned,
        "ended": moment.ended,
    }


def write_clip(frames: list[Image.Image], milliseconds: float, path: Path) -> None:
    """Write an animated WebP that plays once, in the best of three qualities that fits into `LARGEST` bytes."""
    for quality in (65, 40, 20):
        buffer = io.BytesIO()
        frames[0].save(buffer, "WEBP", save_all=True, append_images=frames[1:], duration=round(milliseconds), loop=1,
                       quality=quality, method=4)  # fmt: skip
        if buffer.tell() <= LARGEST:
            break
    path.write_bytes(buffer.getvalue())


def main(asked: dict[str, Any]) -> None:
    import_plugins(asked["plugins"])
    torch.set_num_threads(1)
    for i, job in enumerate(asked["jobs"]):
        path = Path(asked["folder"]) / f"{i}.webp"
        try:
            frames, played = clip(Path(job["run"]), job["target_return"], job["window"])
            write_clip(frames, played["milliseconds"], path)
            frames[-1].save(path.with_stem(f"{i}-still"), "WEBP", quality=65)
        except InputError as error:
            played = {"error": str(error)}
        path.with_suffix(".json").write_text(json.dumps(played))


if __name__ == "__main__":
    run_program(main)
