"""POPGym's recall and position-only tasks (Morad et al. 2023): their scripted experts, on the full state.

In RepeatFirst and RepeatPrevious cards are dealt one at a time, of which the suit is seen, an integer from 0 to 3. In
RepeatFirst an action is right if it is the suit of the first card, in RepeatPrevious if it is that of the k-th last
card, the present one being the last: k is 4 (Easy), 32 (Medium), 64 (Hard). Right actions earn 1 in total over an
episode, wrong ones lose as much. In position-only CartPole and Pendulum the experts are linear-quadratic regulators of
the environment's own discrete-time dynamics around the upright position.
"""

import math
from functools import cache
from typing import Any

import numpy as np

TRUSTED_TORQUE = 10.0
"""Up to this torque the regulator is used, although the motor has only 2: it then catches a swing in time."""


def repeat_first(environment: Any) -> int:
    """The suit of the first card, from the environment's hidden state."""
    return int(environment.get_state()[0])


def repeat_previous(environment: Any) -> int:
    """The suit of the k-th last card, from the environment's hidden state; 0 while there are fewer cards."""
    return int(environment.get_state()[0][0])


def regulator(a: np.ndarray, b: np.ndarray, state_cost: np.ndarray, action_cost: float) -> list[float]:
    """The gains (S,) of the regulator for a state (S,) whose successor is a @ state + b * action."""
    from scipy.linalg import solve_discrete_are  # here: listing datasets does not need it

    p = solve_discrete_are(a, b[:, None], state_cost, [[action_cost]])
    return ((b @ p @ a) / (action_cost + b @ p @ b)).tolist()


@cache
def cartpole_gains() -> list[float]:
    """The gains on (x, x', angle, angle') of the force, for Gymnasium's CartPole linearised around upright."""
    gravity, pole, total, half_length, tau = 9.8, 0.1, 1.1, 0.5, 0.02
    inertia = half_length * (4 / 3 - pole / total)
    coupling = pole * half_length / total
    a, b = np.eye(4), np.zeros(4)
    a[0, 1] = a[2, 3] = tau
    a[3, 2], b[3] = tau * gravity / inertia, -tau / (total * inertia)
    a[1, 2], b[1] = -coupling * a[3, 2], tau / total - coupling * b[3]
    return regulator(a, b, np.eye(4), 0.1)


@cache
def pendulum_gains() -> list[float]:
    """The gains on (angle, angular velocity) of the torque, for Gymnasium's Pendulum around upright, and its costs."""
    dt, gravity, torque = 0.05, 15.0, 3.0  # the accelerations of sin(angle) and of a torque of 1
    a = np.array([[1 + gravity * dt**2, dt], [gravity * dt, 1]])
    return regulator(a, np.array([torque * dt**2, torque * dt]), np.diag([1, 0.1]), 0.001)


def cartpole(environment: Any) -> int:
    """Push in the direction of the regulator's force: 1 is right."""
    force = -sum(gain * value for gain, value in zip(cartpole_gains(), environment.get_state().tolist(), strict=True))
    return int(force > 0)


def pendulum(environment: Any) -> np.ndarray:
    """The regulator's torque near the upright position; elsewhere, one that adds the energy which is missing there."""
    cosine, sine, velocity = environment.get_state().tolist()
    angle_gain, velocity_gain = pendulum_gains()
    torque = -angle_gain * math.atan2(sine, cosine) - velocity_gain * velocity
    if abs(torque) > TRUSTED_TORQUE:
        missing_energy = 15 * (1 - cosine) - velocity**2 / 2
        torque = missing_energy if velocity > 0 else -missing_energy
    return np.array([min(max(torque, -2.0), 2.0)], np.float32)


EXPERTS = {
    "RepeatFirst": repeat_first,
    "RepeatPrevious": repeat_previous,
    "PositionOnlyCartPole": cartpole,
    "PositionOnlyPendulum": pendulum,
}
"""By the name of the task."""
