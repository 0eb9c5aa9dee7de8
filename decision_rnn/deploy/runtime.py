"""Acting with an exported policy, using only numpy and onnxruntime.

A policy's file is an ONNX model of one step of the agent. Its metadata:

    decision_rnn_format    version of this format
    decision_rnn           JSON: environment, layout of the state, default target return, training, scores, versions
    decision_rnn_sha256    checksum of the file up to this value, its last 64 bytes
"""

import hashlib
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from decision_rnn.data.layouts import Layout
from decision_rnn.deploy.acting import ActingLoop
from decision_rnn.utils.errors import InputError, one_line

FORMAT, FORMAT_KEY, POLICY_KEY, DIGEST_KEY = "2", "decision_rnn_format", "decision_rnn", "decision_rnn_sha256"
DIGEST_SIZE = 64
MAX_FILE = 1 << 30
"""Largest size of a file in bytes; a larger one is not read. An agent has a few million parameters."""
EXTERNAL_DATA = re.compile(rb"(?:\x0a|\x8a\x80*\x00)(?:\x08|\x88\x80*\x00)location")
"""A tensor's reference to another file in a serialized model: field 1, the string "location". onnxruntime reads such
files also for a model that is loaded from bytes, some versions of it anywhere."""
STEP = {"obs": "float32", "reward": "float32", "reset": "bool", "target_return": "float32"}
"""The inputs in front of those of the state, with their dtypes."""


State = list[np.ndarray]


class Policy(ActingLoop[State]):
    """An exported policy, with the state of every environment that it acts in.

    For one environment, call `act(observation, reward)` with an observation (O,); for many with observations (num_envs,
    O). `act(observation, reward, done)` also begins the episodes that follow those that have ended, as
    `decision_rnn.EnvironmentActor` does.

    A policy must not be shared between threads; a copy, by `copy.deepcopy` or pickling, starts without state.

    Args:
        data: The bytes of a file that `decision-rnn export` wrote; `Policy.load` reads them.
        source: Where they come from, for messages.
        env: The environment to act in, for its number of environments and how they are reset.
        num_envs: The number of environments, if there is no `env`; if left out, the first call determines it.

    Attributes:
        metadata: Its environment, spaces, layout of the state, training, scores and versions.
        default_target: The target return if none is given.

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

    def __init__(
        self, data: bytes, source: str = "the policy", *, env: Any = None, num_envs: int | None = None
    ) -> None:
        self._data, self._source = data, source
        self._session = _session(data, source)
        entries = self._session.get_modelmeta().custom_metadata_map
        version = entries.get(FORMAT_KEY)
        if version != FORMAT:
            raise InputError(
                f"{source} is not a policy of decision-rnn, or of another version (its metadata's {FORMAT_KEY} is "
                f"{version!r:.20}): name a file that `decision-rnn export` wrote, or export it again"
            )
        try:
            if entries[DIGEST_KEY] != hashlib.sha256(data[:-DIGEST_SIZE]).hexdigest():
                raise ValueError("the checksum does not fit")
            self.metadata: dict[str, Any] = json.loads(entries[POLICY_KEY])
            self._set_layout()
            target = self.metadata["target_return"]
            self.default_target = math.inf if target["default"] == "auto" else float(target["default"])
            self.limited = bool(target.get("auto"))
        except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError) as error:
            raise InputError(
                f"{source} is damaged or was changed after its export ({type(error).__name__}: {error!s:.200}): export "
                "it again"
            ) from None
        super().__init__(self.default_target, env, num_envs)

    @classmethod
    def load(cls, path: str | Path, *, env: Any = None, num_envs: int | None = None) -> "Policy":
        """The policy of a file; the other arguments and errors are those of the class."""
        try:
            size = Path(path).stat().st_size
            if size > MAX_FILE:
                raise InputError(f"{path} has {size:,} bytes, more than any policy: name a file that was exported")
            data = Path(path).read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
        return cls(data, str(path), env=env, num_envs=num_envs)

    def __reduce__(self) -> tuple[Any, ...]:
        return Policy, (self._data, self._source)

    def initial_state(self, environments: int) -> State:
        """The state before an episode's first step, in the file's order; each (environments, ...)."""
        return [np.repeat(initial[None], environments, axis=0) for initial in self._initial]

    def step(
        self, observation: np.ndarray, reward: np.ndarray, reset: np.ndarray, target_return: np.ndarray, state: State
    ) -> tuple[np.ndarray, State]:
        """What the file's graph computes, without the state that is kept between calls; see `ActingLoop.step`."""
        inputs = dict(zip(self._inputs, (observation, reward, reset, target_return, *state), strict=True))
        actions, *after = _run(self._source, self._session.run, self._outputs, inputs)
        return actions, after

    def _advance(self, observations: np.ndarray, rewards: np.ndarray, first: np.ndarray) -> np.ndarray:
        """As inherited, with the arrays bound to the session once, so that calls do not copy the state: it is stored
        twice, and each call reads one copy and writes the other, in turn."""
        for array, value in zip(self._buffers, (observations, rewards, first, self._target), strict=True):
            array[...] = value
        _run(self._source, self._session.run_with_iobinding, self._bindings[0])
        self._state, self._next_state = self._next_state, self._state
        self._bindings.reverse()
        return self._actions.copy()

    def _begin(self, count: int) -> None:
        super()._begin(count)
        observations = np.zeros((count, self.observation_layout.size), "f4")
        self._buffers = (observations, np.zeros(count, "f4"), np.zeros(count, bool), np.zeros(count, "f4"))
        self._actions = np.zeros((count, self.action_layout.size), "f4")
        self._next_state = [np.zeros_like(part) for part in self._state]
        self._bindings = []
        for before, after in ((self._state, self._next_state), (self._next_state, self._state)):
            binding = self._session.io_binding()
            for names, arrays, bind in (
                (self._inputs, (*self._buffers, *before), binding.bind_input),
                (self._outputs, (self._actions, *after), binding.bind_output),
            ):
                for name, array in zip(names, arrays, strict=True):
                    bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
            self._bindings.append(binding)

    def _set_layout(self) -> None:
        """Take inputs, outputs and state from the graph; raises various errors if they are not a policy's."""
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        self._inputs, self._outputs = [node.name for node in inputs], [node.name for node in outputs]
        specs = {node.name: (_dtype(node.type), tuple(map(int, node.shape[1:]))) for node in inputs}
        state = self._inputs[len(STEP) :]
        read = [(name, specs[name][0]) for name in self._inputs[: len(STEP)]]
        returned = [(node.name, _dtype(node.type)) for node in outputs]
        expected = [("actions", "float32"), *((name.replace("h_in_", "h_out_"), specs[name][0]) for name in state)]
        if read != list(STEP.items()) or returned != expected:
            raise ValueError(f"inputs {read}, outputs {returned}")
        sizes = {"observation": int(*specs["obs"][1]), "action": int(*outputs[0].shape[1:])}
        described = {kind: self.metadata.get(kind, {}).get("layout") for kind in sizes}
        self.observation_layout, self.action_layout = (
            Layout.from_json(described[kind]) if described[kind] else Layout.of_size(size)
            for kind, size in sizes.items()
        )
        if sizes != {"observation": self.observation_layout.size, "action": self.action_layout.size}:
            raise ValueError(f"sizes {sizes} are not those of its spaces")
        self.max_observation_dim = self.observation_layout.size
        initial = {part["input"]: np.asarray(part["initial"], np.float64) for part in self.metadata["state"]}
        self._initial = [np.broadcast_to(initial[name].astype(specs[name][0]), specs[name][1]) for name in state]


def _dtype(kind: str) -> np.dtype:
    """The dtype of a type of onnxruntime such as `tensor(float)`; TypeError if numpy has none."""
    name = kind.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(name, name))


def _session(data: bytes, source: str) -> onnxruntime.InferenceSession:
    """A session of the model; InputError if there can be none."""
    if EXTERNAL_DATA.search(data):
        raise InputError(f"{source} refers to other files, which no exported policy does: export the policy again")
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.load_model_format", "ONNX")
    # One core: a step is too little work to share, and spinning threads would take cores from others.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # For one environment and weights in 8 bits, malloc is faster than the arena; for many environments it is slower.
    options.enable_cpu_mem_arena = b"MatMulNBits" not in data
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # errors are raised, not logged
    settings = {"providers": ["CPUExecutionProvider"], "enable_fallback": 0}
    return _run(source, onnxruntime.InferenceSession, data, options, **settings)


def _run(source: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call onnxruntime, with InputError for its exceptions, whose classes are not public."""
    try:
        return function(*arguments, **options)
    except Exception as error:
        version, why = onnxruntime.__version__, one_line(error, 200)
        raise InputError(
            f"{source} is damaged or not an ONNX model, or onnxruntime {version} cannot run it ({why}): export it again"
        ) from None
