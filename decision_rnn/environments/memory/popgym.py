"""Tasks of POPGym (Morad et al. 2023): their scripted experts.

In RepeatFirst and RepeatPrevious cards are dealt one at a time, of which the suit is seen, an integer from 0 to 3. In
RepeatFirst an action is right if it is the suit of the first card, in RepeatPrevious if it is that of the k-th last
card, the present one being the last: k is 4 (Easy), 32 (Medium), 64 (Hard). Right actions earn 1 in total over an
episode, wrong ones lose as much. So they do in Autoencode, where the suits of all cards are to be repeated in reverse,
and in CountRecall, which asks how often a card has been seen. In HigherLower the expert counts the cards that are left.
In Battleship, MineSweeper, Concentration and MultiarmedBandit it remembers what it has seen and tried. In CartPole and
Pendulum, of which positions or velocities are seen, also with noise, the experts are linear-quadratic regulators of the
environment's own discrete-time dynamics around the upright position, on the full state.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from scipy import ndimage

from decision_rnn.environments.recipe import ScriptedRecipe
from decision_rnn.environments.registry import make_environment

CARTPOLE_GAINS = np.array([-2.7897487517622315, -5.248844310529157, -44.986150574806345, -11.869375618083495])
"""The regulator's gains on (x, x', angle, angle') for a force at the cost of 0.1, and 1 for each part of the state."""
PENDULUM_GAINS = 19.69321654676339, 5.262500081365323
"""The regulator's gains on (angle, angular velocity) for a torque, at the environment's own costs."""
TRUSTED_TORQUE = 10.0
"""Up to this torque the regulator is used, although the motor has only 2: it then catches a swing in time."""


def cartpole(environment: Any, *_: Any) -> int:
    """Push in the direction of the regulator's force: 1 is right."""
    return int(CARTPOLE_GAINS @ environment.get_state() < 0)


def pendulum(environment: Any, *_: Any) -> np.ndarray:
    """The regulator's torque near the upright position; elsewhere, one that adds the energy which is missing there."""
    cosine, sine, velocity = environment.get_state().tolist()
    torque = -PENDULUM_GAINS[0] * math.atan2(sine, cosine) - PENDULUM_GAINS[1] * velocity
    if abs(torque) > TRUSTED_TORQUE:
        missing_energy = 15 * (1 - cosine) - velocity**2 / 2
        torque = missing_energy if velocity > 0 else -missing_energy
    return np.array([min(max(torque, -2.0), 2.0)], np.float32)


def higher_lower(environment: Any, *_: Any) -> int:
    """0, higher, unless more of the cards that are left are lower."""
    left = 4 * environment.num_decks - environment.state.astype(int)
    rank = environment.deck.show("player", ["ranks_idx"]).item()
    return int(left[rank + 1 :].sum() < left[:rank].sum())


def battleship(environment: Any, *_: Any) -> np.ndarray:
    """The first place beside a hit that has not been tried, or of every second place, or of all."""
    free, hits = environment.guesses == 0, (environment.guesses * environment.board).astype(bool)
    wanted = free & ndimage.binary_dilation(hits), free & (np.indices(free.shape).sum(0) % 2 == 0), free
    return first_place(next(places for places in wanted if places.any()))


def mine_sweeper(environment: Any, *_: Any) -> np.ndarray:
    """The first hidden place with the least risk: 0 beside a number whose mines are known, else the largest share of
    mines that a number leaves to the unknown places around it."""
    hidden, mines = environment.hidden_grid != 2, np.zeros(environment.dims, bool)
    square = np.ones((3, 3), int)
    for _step in range(3):  # further steps find hardly any further mines
        places = ndimage.convolve((hidden & ~mines).astype(int), square, mode="constant")
        left = environment.neighbor_grid - ndimage.convolve(mines.astype(int), square, mode="constant")
        share = left / places.clip(1)
        lowest = ndimage.minimum_filter(np.where(hidden, 1, share), 3, mode="constant", cval=1)
        highest = ndimage.maximum_filter(np.where(hidden, -1, share), 3, mode="constant", cval=-1)
        mines |= hidden & (highest == 1)
    risk = np.where(highest < 0, environment.num_mines / hidden.sum(), np.where(lowest == 0, 0, highest))
    risk[mines | ~hidden] = 1
    return first_place(risk == risk.min())


def first_place(places: np.ndarray) -> np.ndarray:
    """Row and column of the first true entry."""
    return np.array(np.unravel_index(places.argmax(), places.shape))


def concentration(environment: Any, observations: Sequence[Any], _: Any) -> int:
    """The first card of a pair that has been seen, or that has not been seen, or that is face down."""
    seen, turned = np.min(observations, axis=0), environment.deck["in_play_idx"]  # face down is the largest number
    down = np.ones(len(seen), bool)
    down[environment.deck["face_up_idx"] + turned] = False
    known = down & (seen < environment.facedown_card)
    paired = seen == seen[turned[0]] if turned else np.bincount(seen[known], minlength=seen.max() + 1)[seen] > 1
    return int(next(cards for cards in (known & paired, down & ~known, down) if cards.any()).argmax())


def multiarmed_bandit(environment: Any, observations: Sequence[Any], actions: Sequence[Any]) -> int:
    """The arm that has paid most often, where every arm is thought to have paid once before."""
    plays = np.bincount(actions, minlength=environment.num_bandits)
    wins = np.bincount(actions, observations[1:], minlength=environment.num_bandits)
    return int(((wins + 1) / (plays + 1)).argmax())


EXPERTS: dict[str, Callable[[Any, Sequence[Any], Sequence[Any]], Any]] = {
    "RepeatFirst": lambda environment, *_: int(environment.get_state()[0]),
    # 0 while there are fewer than k cards
    "RepeatPrevious": lambda environment, *_: int(environment.get_state()[0][0]),
    "Autoencode": lambda environment, *_: int(environment.deck.suits_idx[environment.deck["system"][-1]]),
    "CountRecall": lambda environment, *_: int(environment.counts[environment.query]),
    "Battleship": battleship,
    "MineSweeper": mine_sweeper,
    "Concentration": concentration,
    "MultiarmedBandit": multiarmed_bandit,
    "HigherLower": higher_lower,
    "PositionOnlyCartPole": cartpole,
    "NoisyPositionOnlyCartPole": cartpole,
    "VelocityOnlyCartpole": cartpole,
    "PositionOnlyPendulum": pendulum,
    "NoisyPositionOnlyPendulum": pendulum,
}
"""Functions from an environment of a task, the observations of the episode so far and the actions before the last of
them to an action, by the name of the task."""


@dataclass(frozen=True, kw_only=True)
class POPGymRecipe(ScriptedRecipe):
    """A task of POPGym: the episodes with an even index are the expert's own, and each of the others has a rate, drawn
    from 0 to 1, at which its actions are random."""

    task: str
    episodes: int | None = 3_000

    def begin(self, index: int, generator: np.random.Generator) -> tuple[gymnasium.Env, Callable[[Any], Any]]:
        environment: Any = make_environment(self.environment_id).unwrapped
        environment.action_space.seed(int(generator.integers(2**31)))
        rate, expert = generator.random() * (index % 2), EXPERTS[self.task]
        observations, actions = list[Any](), list[Any]()

        def act(observation: Any) -> Any:
            observations.append(observation)
            if generator.random() < rate:
                action = environment.action_space.sample()
            else:
                action = expert(environment, observations, actions)
            actions.append(action)
            return action

        return environment, act
