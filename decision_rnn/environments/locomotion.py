"""Hopper, HalfCheetah and Walker2d of Gymnasium, many bodies at once.

Gymnasium spends about half as long on the Python around one step of such a body as MuJoCo does on its physics. Here the
physics is stepped body by body, and all else is computed for all bodies together. Observations, rewards, ends and infos
are those of Gymnasium's environments, bit for bit.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium.envs.mujoco import half_cheetah_v4, half_cheetah_v5, hopper_v4, hopper_v5, walker2d_v4, walker2d_v5
from gymnasium.utils.seeding import np_random
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from decision_rnn.environments.group import Group

HOPPERS = hopper_v4.HopperEnv, hopper_v5.HopperEnv
CHEETAHS = half_cheetah_v4.HalfCheetahEnv, half_cheetah_v5.HalfCheetahEnv
WALKERS = walker2d_v4.Walker2dEnv, walker2d_v5.Walker2dEnv
VERSION_4 = HOPPERS[0], CHEETAHS[0], WALKERS[0]


def is_locomotion(environment: gymnasium.Env) -> bool:
    """Whether an environment is one that `Bodies` can step in its place: as `gymnasium.make` returns it, with one time
    limit, and without a picture."""
    limits = 0
    while type(environment) in (TimeLimit, OrderEnforcing):
        limits += type(environment) is TimeLimit
        environment = environment.env  # type: ignore[attr-defined]
    body = type(environment) in (*HOPPERS, *CHEETAHS, *WALKERS)
    return body and limits == 1 and environment.render_mode is None


class Infos(Sequence[dict[str, Any]]):
    """Gymnasium's infos of bodies, each built when it is read, from an array (rows,) for every entry."""

    def __init__(self, entries: dict[str, np.ndarray]) -> None:
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries["x_position"])

    def __getitem__(self, row: Any) -> Any:
        return {name: values[row] for name, values in self.entries.items()}


class Bodies(Group):
    """The bodies of an environment for which `is_locomotion` is true.

    Args:
        environment: The environment, whose model and settings they share. It is not stepped.
        count: The number of bodies.
    """

    def __init__(self, environment: gymnasium.Env, count: int) -> None:
        super().__init__([environment])
        settings: Any = environment.unwrapped
        self.settings, self.kind = settings, type(settings)
        self.model, self.frame_skip = settings.model, settings.frame_skip
        self.data = [mujoco.MjData(self.model) for _ in range(count)]
        self.positions, self.velocities = [data.qpos for data in self.data], [data.qvel for data in self.data]
        self.controls, self.x = [data.ctrl for data in self.data], np.zeros(count)
        self.time_limit = environment.get_wrapper_attr("_max_episode_steps")
        self.lengths = np.zeros(count, np.int64)

    def reset(self, seeds: Sequence[int | None]) -> np.ndarray:
        """The first observations, (count, entries) float64, as of `environment.reset(seed)` with each of the seeds."""
        settings, scale = self.settings, self.settings._reset_noise_scale
        for data, seed in zip(self.data, seeds, strict=True):
            generator, _ = np_random(seed)
            mujoco.mj_resetData(self.model, data)
            data.qpos[:] = settings.init_qpos + generator.uniform(low=-scale, high=scale, size=self.model.nq)
            if self.kind in CHEETAHS:
                noise = scale * generator.standard_normal(self.model.nv)
            else:
                noise = generator.uniform(low=-scale, high=scale, size=self.model.nv)
            data.qvel[:] = settings.init_qvel + noise
            mujoco.mj_forward(self.model, data)
        self.lengths[:] = 0
        position, velocity = self._state(range(len(self.data)))
        self.x = position[:, 0]
        return self._observations(position, velocity)

    def step(self, rows: np.ndarray, actions: Any) -> tuple[Any, ...]:
        """One step of some of the bodies.

        Args:
            rows: (rows,), their numbers.
            actions: (rows, action_dim), their actions.

        Returns:
            Observations, (rows, entries) float64; rewards, (rows,) float64; whether the episodes are terminated and
            truncated, each (rows,) bool; and Gymnasium's infos, (rows,).
        """
        for row, action in zip(rows.tolist(), actions, strict=True):
            self.controls[row][:] = action
            mujoco.mj_step(self.model, self.data[row], self.frame_skip)
        self.lengths[rows] += 1
        position, velocity = self._state(rows.tolist())
        before, self.x[rows] = self.x[rows], position[:, 0]
        rewards, terminated, infos = self._rewards(before, position, velocity, actions)
        truncated = self.lengths[rows] >= self.time_limit
        return self._observations(position, velocity), rewards, terminated, truncated, infos

    def _state(self, rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities, (rows, joints)."""
        return np.array([self.positions[row] for row in rows]), np.array([self.velocities[row] for row in rows])

    def _observations(self, position: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        velocity = velocity if self.kind in CHEETAHS else np.clip(velocity, -10, 10)
        skipped = int(self.settings._exclude_current_positions_from_observation)
        return np.concatenate([position[:, skipped:], velocity], axis=1)

    def _rewards(
        self, before: np.ndarray, position: np.ndarray, velocity: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, Infos]:
        """Rewards, whether episodes are terminated, and infos; in the order and types of Gymnasium's own sums."""
        settings = self.settings
        speed = (position[:, 0] - before) / settings.dt
        forward = settings._forward_reward_weight * speed
        cost = settings._ctrl_cost_weight * np.sum(np.square(actions), axis=1)
        info = {"x_position": position[:, 0], "x_velocity": speed}
        parts = {"reward_run" if self.kind is CHEETAHS[0] else "reward_forward": forward, "reward_ctrl": -cost}
        if self.kind in CHEETAHS:
            rewards, terminated = forward - cost, np.zeros(len(speed), bool)
        else:
            healthy, ends = self._healthy(position, velocity), settings._terminate_when_unhealthy
            counts = healthy | ends if self.kind in VERSION_4 else healthy
            alive = counts * settings._healthy_reward
            rewards, terminated = forward + alive - cost, ~healthy & ends
            if self.kind not in VERSION_4:
                info["z_distance_from_origin"] = position[:, 1] - settings.init_qpos[1]
                parts["reward_survive"] = alive
        if self.kind not in VERSION_4 or self.kind in CHEETAHS:
            info |= parts
        return rewards, terminated, Infos(info)

    def _healthy(self, position: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        (low_z, high_z), (low, high) = self.settings._healthy_z_range, self.settings._healthy_angle_range
        z, angle = position[:, 1], position[:, 2]
        healthy = (low_z < z) & (z < high_z) & (low < angle) & (angle < high)
        if self.kind in HOPPERS:
            state = np.concatenate([position, velocity], axis=1)[:, 2:]
            lowest, highest = self.settings._healthy_state_range
            healthy &= ((lowest < state) & (state < highest)).all(1)
        return healthy
