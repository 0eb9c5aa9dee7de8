"""Environments whose sensor fails for some steps: their observations are frozen, zero or noise."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.envs.registration import WrapperSpec
from gymnasium.spaces import Box

from decision_rnn.utils.errors import InputError

Fault = Literal["freeze", "zero", "noise"]
"""What an agent sees: the last observation before the fault, zeros, or standard normal noise."""
ID = re.compile(r"decision_rnn/(freeze|zero|noise)-(\d{1,6})-of-(\d{1,6})-([\w.-]{1,100})")
"""Such as `decision_rnn/freeze-25-of-200-Hopper-v5`: of every 200 steps of Hopper-v5 the last 25 are a fault."""


class SensorFault(gymnasium.Wrapper):
    """An environment of which the last `steps` of every `every` observations are not seen.

    Rewards and the ends of episodes stay as they are. Observations must be a Box.

    Args:
        env: The environment.
        fault: What is seen in place of an observation.
        steps: The length of a fault in steps.
        every: The number of steps from the beginning of one fault to that of the next, more than `steps`, so that an
            episode's first observation is seen.

    Raises:
        InputError: If the observations are no Box, or `steps` is not from 1 to `every` - 1.
    """

    def __init__(self, env: gymnasium.Env, fault: Fault = "freeze", steps: int = 25, every: int = 200) -> None:
        super().__init__(env)
        if not isinstance(env.observation_space, Box):
            raise InputError(f"the observations are {type(env.observation_space).__name__}, and faults need a Box")
        if not 0 < steps < every:
            raise InputError(f"a fault has {steps} of {every} steps, expected from 1 to {every - 1}")
        self.fault, self.steps, self.every = fault, steps, every

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.time, self.noise = 0, np.random.default_rng(seed)
        self.seen, info = self.env.reset(seed=seed, options=options)
        return self.seen, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, *outcome = self.env.step(action)
        self.time += 1
        if self.time % self.every < self.every - self.steps:
            self.seen = observation
        elif self.fault == "zero":
            self.seen = np.zeros_like(observation)
        elif self.fault == "noise":
            self.seen = self.noise.normal(size=observation.shape).astype(observation.dtype)
        return self.seen, *outcome


def register(environment_id: str, register_base: Callable[[str], object]) -> None:
    """Register the environment if its id has the form of `ID` and names another one, with or without `decision_rnn/`,
    which `register_base` registers if it is one of ours."""
    if match := ID.fullmatch(environment_id):
        fault, steps, every, base = match.groups()
        for base_id in (base, f"decision_rnn/{base}"):
            register_base(base_id)
            if (spec := gymnasium.registry.get(base_id)) is not None:
                settings = {"fault": fault, "steps": int(steps), "every": int(every)}
                wrapper = WrapperSpec("SensorFault", f"{__name__}:SensorFault", settings)
                wrappers = (*spec.additional_wrappers, wrapper)
                gymnasium.registry[environment_id] = replace(spec, id=environment_id, additional_wrappers=wrappers)
