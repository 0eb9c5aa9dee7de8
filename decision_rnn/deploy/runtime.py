"""Acting with an exported policy, using only numpy and onnxruntime.

A policy's file is an ONNX model of one step of the agent. Its metadata:

    decision_rnn_format    version of this format
    decision_rnn           JSON: environment, names of entries, layout of the state, default target, training, versions
"""

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from decision_rnn.environments.layouts import Layout
from decision_rnn.evaluation.acting import Actor
from decision_rnn.utils.errors import reading

FORMAT, FORMAT_KEY, POLICY_KEY = "4", "decision_rnn_format", "decision_rnn"

State = list[np.ndarray]


class Policy(Actor[State]):
    """An exported policy, with the state of every environment that it acts in, as `decision_rnn.EnvironmentActor`.

    A policy must not be shared between threads; a copy, by `copy.deepcopy` or pickling, begins an episode.

    Args:
        data: The bytes of a file that `decision-rnn export` wrote; `Policy.load` reads them.
        source: Where they come from, for messages.
        options: `env` and `warn_outside`, as for `decision_rnn.EnvironmentActor`.

    Attributes:
        metadata: Its environment, spaces, layout of the state, training and versions.
        default_target: The target return if none is given.
        observation_names: The names of the entries of an observation; empty if the data have none. Then observations
            may also be dictionaries by these names. `action_names` likewise.

    Raises:
        InputError: Naming the source and what is wrong with it.

    Example:
        >>> policy = Policy.load("policy.onnx")
        >>> policy.reset(target_return=3600)
        >>> observation, _ = environment.reset()
        >>> reward, done = 0.0, False
        >>> while not done:
        ...     action = policy.act(observation, reward)
        ...     observation, reward, terminated, truncated, _ = environment.step(action)
        ...     done = terminated or truncated
    """

    _bindings: list[Any]
    _next_state: State

    def __init__(self, data: bytes, source: str = "the policy", **options: Any) -> None:
        self._data, self._source = data, source
        with _reading(source):
            self._session = _session(data)
            entries = self._session.get_modelmeta().custom_metadata_map
            if entries.get(FORMAT_KEY) != FORMAT:
                raise ValueError("it was not exported by this version of decision-rnn")
            self.metadata = json.loads(entries[POLICY_KEY])
            self._inputs = [node.name for node in self._session.get_inputs()]
            self._outputs = [node.name for node in self._session.get_outputs()]
            spaces = self.metadata["observation"], self.metadata["action"]
            self.observation_layout, self.action_layout = (
                Layout.from_json(space.get("layout", [{"path": (), "shape": [space["size"]]}])) for space in spaces
            )
            self.observation_names, self.action_names = (space["names"] for space in spaces)
            self.observation_moments = np.array([spaces[0]["mean"], spaces[0]["std"]], np.float64)
            self._state_layout = [(np.dtype(part["dtype"]), tuple(part["shape"])) for part in self.metadata["state"]]
            target = self.metadata["target_return"]
            default, self.limited, self.reads_reward = (target[key] for key in ("default", "auto", "reads_reward"))
            self.default_target = math.inf if default == "auto" else float(default)
        super().__init__(self.default_target, **options)

    @classmethod
    def load(cls, path: str | Path, *, env: Any = None, warn_outside: float | None = None) -> "Policy":
        """The policy of a file; the other arguments and errors are those of the class."""
        with _reading(path):
            data = Path(path).read_bytes()
        return cls(data, str(path), env=env, warn_outside=warn_outside)

    def __reduce__(self) -> tuple[Any, ...]:
        kept = ("num_envs", "_mode", "_target_return", "warn_outside", "_limits")
        return Policy, (self._data, self._source), {name: getattr(self, name) for name in kept}

    def initial_state(self, environments: int) -> State:
        """The state before an episode's first step, in the file's order; each (environments, ...). It is ignored
        there: these are zeros."""
        return [np.zeros((environments, *shape), dtype) for dtype, shape in self._state_layout]

    def step(
        self, observation: np.ndarray, reward: np.ndarray, reset: np.ndarray, target_return: np.ndarray, state: State
    ) -> tuple[np.ndarray, State]:
        """What the file's graph computes, without the state that is kept between calls; see `Actor.step`."""
        inputs = dict(zip(self._inputs, (observation, reward, reset, target_return, *state), strict=True))
        actions, *after = self._session.run(self._outputs, inputs)
        return actions, after

    def _advance(self, observations: np.ndarray) -> np.ndarray:
        """As inherited, with the arrays bound to the session once, so that calls do not copy the state: it is stored
        twice, and each call reads one copy and writes the other, in turn."""
        self._observations[...] = observations
        self._session.run_with_iobinding(self._bindings[0])
        self._state, self._next_state = self._next_state, self._state
        self._bindings.reverse()
        return self._actions.copy()

    def _begin(self, count: int) -> None:
        super()._begin(count)
        self._observations = np.zeros((count, self.observation_layout.size), "f4")
        inputs: Any = (self._observations, self._reward, self._is_first, self._target)
        self._actions = np.zeros((count, self.action_layout.size), "f4")
        self._next_state = [np.zeros_like(part) for part in self._state]
        self._bindings = []
        for before, after in ((self._state, self._next_state), (self._next_state, self._state)):
            binding = self._session.io_binding()
            for name, array in zip(self._inputs, (*inputs, *before), strict=True):
                binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
            for name, array in zip(self._outputs, (self._actions, *after), strict=True):
                binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
            self._bindings.append(binding)


def _reading(source: str | Path) -> contextlib.AbstractContextManager[None]:
    remedy = "Name a file that `decision-rnn export` wrote, or export it again."
    return reading(source, "an exported policy", remedy)


def _session(data: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.load_model_format", "ONNX")
    # One core: a step is too little work to share, and spinning threads would take cores from others.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Reusing the memory of intermediate values costs a twentieth of a step's time and saves little memory.
    options.enable_mem_reuse = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # errors are raised, not logged
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"], enable_fallback=0)
