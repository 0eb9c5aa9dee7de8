"""Playing one episode at a time for a viewer: in a window, or as images."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from PIL import Image

from decision_rnn.data.environments import make_environment
from decision_rnn.data.episode_loop import play_together
from decision_rnn.errors import InputError
from decision_rnn.evaluation.actor import Actor
from decision_rnn.evaluation.rollout import GroupPolicy, step_limit


class Moment(NamedTuple):
    """The state of an episode: steps taken so far, their undiscounted return, and whether it is over."""

    steps: int
    earned: float
    ended: bool


def play(
    actor: Actor, environment: gymnasium.Env, target_return: float | None, seed: int, max_steps: int | None = None
) -> Iterator[Moment]:
    """Play an episode; yields a moment at its beginning and one after every step.

    The episode is the same as in a rollout of one episode with this seed. Torch's global generator is seeded too.

    Args:
        actor: In evaluation mode, on the CPU.
        environment: With flat Box spaces.
        target_return: The target return; None in behaviour cloning.
        seed: The episode begins with the environment's reset(seed).
        max_steps: The largest number of steps; None for that of `step_limit`.
    """
    torch.manual_seed(seed)
    observation, _ = environment.reset(seed=seed)
    policy, moment = GroupPolicy(actor, [target_return or 0.0]), Moment(0, 0.0, False)
    limit = max_steps if environment.spec is None else step_limit(environment.spec.id, max_steps)
    yield moment
    for step in play_together([environment], [observation], policy, limit):
        moment = Moment(moment.steps + 1, moment.earned + float(step.rewards[0]), bool(step.over[0]) or step.cut)
        yield moment


def watched_environment(environment_id: str, size: int | None = None) -> gymnasium.Env:
    """Make the environment for viewing: as images, `size` by `size` pixels with MuJoCo, or in a window without `size`.

    With MuJoCo the camera follows the body; with Gymnasium 1.4's default camera it runs out of sight. Images have no
    shadows and no reflections, which take three quarters of the time when rendered in software.
    """
    settings: dict[str, Any] = {"render_mode": "human" if size is None else "rgb_array"}
    registered = gymnasium.registry.get(environment_id)
    if registered is not None and str(registered.entry_point).startswith("gymnasium.envs.mujoco"):
        settings["camera_name"] = "track"  # without a camera of that name, Gymnasium uses its default
        if size is not None:
            settings |= {"width": size, "height": size}
    environment = make_environment(environment_id, **settings)
    model: Any = getattr(environment.unwrapped, "model", None)
    if size is not None and hasattr(model, "light_castshadow") and hasattr(model, "mat_reflectance"):
        model.light_castshadow[:] = 0
        model.mat_reflectance[:] = 0
    return environment


def draw(environment: gymnasium.Env) -> Image.Image:
    """Render the environment's current state as an image; InputError if it does not render images."""
    drawn = environment.render()
    if not isinstance(drawn, np.ndarray):
        raise InputError("the environment does not render pictures")
    return Image.fromarray(drawn)
