"""Tasks of POPGym (Morad et al. 2023): their scripted experts, on the full state.

In RepeatFirst and RepeatPrevious cards are dealt one at a time, of which the suit is seen, an integer from 0 to 3. In
RepeatFirst an action is right if it is the suit of the first card, in RepeatPrevious if it is that of the k-th last
card, the present one being the last: k is 4 (Easy), 32 (Medium), 64 (Hard). Right actions earn 1 in total over an
episode, wrong ones lose as much. So they do in Autoencode, where the suits of all cards are to be repeated in reverse,
and in CountRecall, which asks how often a card has been seen. In HigherLower the expert counts the cards that are left.
In CartPole and Pendulum, of which positions or velocities are seen, also with noise, the experts are linear-quadratic
regulators of the environment's own discrete-time dynamics around the upright position.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from decision_rnn.environments.recipe import ScriptedRecipe
from decision_rnn.environments.registry import make_environment

CARTPOLE_GAINS = np.array([-2.7897487517622315, -5.248844310529157, -44.986150574806345, -11.869375618083495])
"""The regulator's gains on (x, x', angle, angle') for a force at the cost of 0.1, and 1 for each part of the state."""
PENDULUM_GAINS = 19.69321654676339, 5.262500081365323
"""The regulator's gains on (angle, angular velocity) for a torque, at the environment's own costs."""
TRUSTED_TORQUE = 10.0
"""Up to this torque the regulator is used, although the motor has only 2: it then catches a swing in time."""


def cartpole(environment: Any) -> int:
    """Push in the direction of the regulator's force: 1 is right."""
    return int(CARTPOLE_GAINS @ environment.get_state() < 0)


def pendulum(environment: Any) -> np.ndarray:
    """The regulator's torque near the upright position; elsewhere, one that adds the energy which is missing there."""
    cosine, sine, velocity = environment.get_state().tolist()
    torque = -PENDULUM_GAINS[0] * math.atan2(sine, cosine) - PENDULUM_GAINS[1] * velocity
    if abs(torque) > TRUSTED_TORQUE:
        missing_energy = 15 * (1 - cosine) - velocity**2 / 2
        torque = missing_energy if velocity > 0 else -missing_energy
    return np.array([min(max(torque, -2.0), 2.0)], np.float32)


def higher_lower(environment: Any) -> int:
    """0, higher, unless more of the cards that are left are lower."""
    left = 4 * environment.num_decks - environment.state.astype(int)
    rank = environment.deck.show("player", ["ranks_idx"]).item()
    return int(left[rank + 1 :].sum() < left[:rank].sum())


EXPERTS: dict[str, Callable[[Any], Any]] = {
    "RepeatFirst": lambda environment: int(environment.get_state()[0]),
    "RepeatPrevious": lambda environment: int(environment.get_state()[0][0]),  # 0 while there are fewer than k cards
    "Autoencode": lambda environment: int(environment.deck.suits_idx[environment.deck["system"][-1]]),
    "CountRecall": lambda environment: int(environment.counts[environment.query]),
    "HigherLower": higher_lower,
    "PositionOnlyCartPole": cartpole,
    "NoisyPositionOnlyCartPole": cartpole,
    "VelocityOnlyCartpole": cartpole,
    "PositionOnlyPendulum": pendulum,
    "NoisyPositionOnlyPendulum": pendulum,
}
"""Functions from an environment of a task to an action, by the name of the task."""


@dataclass(frozen=True, kw_only=True)
class POPGymRecipe(ScriptedRecipe):
    """A task of POPGym: the episodes with an even index are the expert's own, and each of the others has a rate, drawn
    from 0 to 1, at which its actions are random."""

    task: str
    episodes: int | None = 3_000

    def begin(self, index: int, generator: np.random.Generator) -> tuple[gymnasium.Env, Callable[[], Any]]:
        environment: Any = make_environment(self.environment_id).unwrapped
        environment.action_space.seed(int(generator.integers(2**31)))
        rate, expert = generator.random() * (index % 2), EXPERTS[self.task]

        def act() -> Any:
            return environment.action_space.sample() if generator.random() < rate else expert(environment)

        return environment, act
