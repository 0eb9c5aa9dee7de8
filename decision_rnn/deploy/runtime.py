"""Acting with an exported policy, using only numpy and onnxruntime.

policy = Policy.load("policy.onnx")
policy.reset(target_return=3600)
observation, _ = environment.reset()
reward, over = 0.0, False
while not over:
    observation, reward, terminated, truncated, _ = environment.step(policy.act(observation, reward))
    over = terminated or truncated
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import ArrayLike

from decision_rnn.deploy.policy_file import LARGEST_FILE, PolicyFile, read_policy
from decision_rnn.errors import InputError

MOST = 1 << 20
"""The most environments of one policy: a large environment number takes memory for all numbers below it."""

Index = Sequence[int] | np.ndarray


class Policy:
    """An exported policy, with the state of every environment that it acts in.

    For one environment, call `act(observation, reward)` with an observation (entries,); for many, numbered from 0, with
    observations (environments, entries). You can begin a new episode in any of them, `reset(index=[3])`, or step some
    without the others, `act(observations, rewards, index=[5, 2])`. An environment's actions do not depend on which
    others are stepped with it, except for their last digits: onnxruntime's order of addition may vary with the batch.

    A policy keeps its state between calls and must not be shared between threads; a copy, by `copy.deepcopy` or
    pickling, starts without state.

    Attributes:
        file: The contents of the file: inputs, outputs, the layout of the state and the metadata.
    """

    def __init__(self, file: PolicyFile) -> None:
        self.file = file
        self._session = _session(file)
        self.reset()

    @classmethod
    def load(cls, path: str | Path) -> "Policy":
        """The policy of a file that `decision-rnn export` wrote.

        Raises:
            InputError: Naming the file and what is wrong with it. It is fully checked before onnxruntime reads it.
        """
        path = Path(path)
        try:
            size = path.stat().st_size
            if size > LARGEST_FILE:
                raise InputError(f"{path} has {size:,} bytes, more than any policy: name a file that was exported")
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
        return cls(read_policy(data, str(path)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Policy, (self.file,)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the policy: its environment, spaces, training, scores and versions."""
        return self.file.metadata

    @property
    def default_target(self) -> float:
        """The target return if none is given."""
        return float(self.file.metadata["target_return"]["default"])

    @property
    def observation_dim(self) -> int:
        """Entries of an observation."""
        return self.file.inputs[0].shape[0]

    @property
    def action_dim(self) -> int:
        """Components of an action."""
        return self.file.actions.shape[0]

    def reset(self, target_return: ArrayLike | None = None, index: Index | None = None) -> None:
        """Begin new episodes, at the next `act`.

        Args:
            target_return: The target return, in the environment's units: a number or one for each environment. If left
                out: the file's default if all environments are reset, the previous target if `index` is given.
            index: The environments; if left out, all of them, and the next `act` determines their number.

        Raises:
            InputError: For a return that is not finite, or invalid environment numbers.
        """
        asked = None if target_return is None else np.asarray(target_return, np.float32)
        if asked is not None and not (np.isfinite(asked).all() and asked.ndim <= 1):
            raise InputError(f"target_return is {target_return!r:.100}: it must be finite, one or one per environment")
        if index is None:
            self._fresh_target = self.default_target if asked is None or asked.ndim else float(asked)
            self._lane = _Lane(self._session, self.file, 0)
            self._known = asked is not None and asked.ndim == 1
            if asked is not None and asked.ndim:
                self._grow(len(asked))
                self._lane.target_return[:] = asked
            return
        rows = self._rows(index)
        if asked is not None and asked.ndim and asked.shape != rows.shape:
            raise InputError(f"target_return has {len(asked)} numbers for {len(rows)} environments: give each its own")
        self._lane.begin(rows)
        if asked is not None:
            self._lane.target_return[rows] = asked

    def act(self, observation: ArrayLike, reward: ArrayLike = 0.0, index: Index | None = None) -> np.ndarray:
        """Take one step.

        Args:
            observation: (entries,) of one environment, or (environments, entries).
            reward: The reward of the previous action, a number or (environments,); ignored where an episode begins.
            index: Which environments to step, in the order of the rows; all if left out.

        Returns:
            Actions in [-1, 1], float32: (action_dim,) or (environments, action_dim).

        Raises:
            InputError: For shapes that do not match, invalid environment numbers, or a file whose graph cannot be run.
        """
        observations = np.asarray(observation, np.float32)
        single = observations.ndim == 1
        rows = observations[None] if single else observations
        if rows.ndim != 2 or rows.shape[1] != self.observation_dim:
            raise InputError(
                f"the observation has the shape {observations.shape}: it must be ({self.observation_dim},), or "
                f"(environments, {self.observation_dim})"
            )
        rewards = np.asarray(reward, np.float32)
        if rewards.shape not in ((), (1,), (len(rows),)):
            raise InputError(
                f"the reward has the shape {rewards.shape} for {len(rows)} environments: give each its own"
            )
        actions = self._act_all(rows, rewards) if index is None else self._act_some(rows, rewards, self._rows(index))
        return actions[0] if single else actions

    def initial_state(self, environments: int) -> list[np.ndarray]:
        """The state before an episode's first step, in the file's order; each (environments, ...)."""
        return [np.repeat(part.initial[None], environments, axis=0) for part in self.file.state]

    def step(
        self,
        observation: np.ndarray,
        reward: np.ndarray,
        reset: np.ndarray,
        target_return: np.ndarray,
        state: Sequence[np.ndarray],
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """One step without stored state: what the file's graph computes; raises InputError if it cannot be run.

        Args:
            observation: (batch, entries) float32.
            reward: (batch,) float32.
            reset: (batch,) bool, true where an episode begins: the state there is ignored.
            target_return: (batch,) float32.
            state: From `initial_state` or the previous call.

        Returns:
            Actions, (batch, action_dim), and the state to pass to the next call.
        """
        inputs = dict(zip(self._lane.inputs, (observation, reward, reset, target_return, *state), strict=True))
        actions, *after = _call(self._session.run, self._lane.outputs, inputs)
        return actions, after

    def _act_all(self, rows: np.ndarray, rewards: np.ndarray) -> np.ndarray:
        environments = len(self._lane.reset)
        if len(rows) != environments:
            if self._known:
                raise InputError(
                    f"{len(rows)} observations for {environments} environments: name those that are stepped by index, "
                    "or start again with reset()"
                )
            self._grow(len(rows))
            self._known = True
        return self._lane.run(self._session, rows, rewards)

    def _act_some(self, rows: np.ndarray, rewards: np.ndarray, index: np.ndarray) -> np.ndarray:
        if len(rows) != len(index):
            raise InputError(f"{len(rows)} observations for {len(index)} numbers in index: give each its own")
        if not len(index):
            return np.zeros((0, self.action_dim), np.float32)
        lane = self._lane
        rewards = np.ascontiguousarray(np.broadcast_to(rewards, len(index)))
        state = [part[index] for part in lane.state]
        actions, after = self.step(rows, rewards, lane.reset[index], lane.target_return[index], state)
        for part, value in zip(lane.state, after, strict=True):
            part[index] = value
        lane.reset[index] = False
        return actions

    def _rows(self, index: Index) -> np.ndarray:
        """The environments with these numbers; new ones begin their first episode."""
        rows = np.asarray(index)
        if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "iu"):
            raise InputError(f"index is {index!r:.100}: it must be a list of the environments' numbers")
        if not len(rows):
            return rows.astype(np.int64)
        if rows.min() < 0 or rows.max() >= MOST:
            raise InputError(f"index names environments from {rows.min()} to {rows.max()}: they are numbered from 0 on")
        if len(np.unique(rows)) < len(rows):
            raise InputError("index names an environment twice: each is stepped once")
        self._known = True
        if rows.max() >= len(self._lane.reset):
            self._grow(int(rows.max()) + 1)
        return rows

    def _grow(self, environments: int) -> None:
        """Make room for that many environments; existing ones keep their state."""
        before, lane = self._lane, _Lane(self._session, self.file, environments)
        count = len(before.reset)
        lane.target_return[:] = self._fresh_target
        kept = [(lane.reset, before.reset), (lane.target_return, before.target_return)]
        for new, old in (*kept, *zip(lane.state, before.state, strict=True)):
            new[:count] = old
        self._lane = lane


class _Lane:
    """The state of a fixed number of environments, bound to the session once, so that calls do not copy it.

    The state is stored twice: each call reads one copy and writes the other, in turn.
    """

    def __init__(self, session: onnxruntime.InferenceSession, file: PolicyFile, environments: int) -> None:
        specs = (*file.inputs, *(part.input for part in file.state))
        self.inputs = [spec.name for spec in specs]
        self.outputs = [file.actions.name, *(part.output.name for part in file.state)]
        first = [np.zeros((environments, *spec.shape), spec.dtype) for spec in file.inputs]
        self.observation, self.reward, self.reset, self.target_return = first
        self.begin(slice(None))
        self.actions = np.zeros((environments, *file.actions.shape), np.float32)
        here, there = (
            [np.zeros((environments, *part.input.shape), part.input.dtype) for part in file.state] for _ in range(2)
        )
        self._sides = [here, there]
        self._bindings = []
        if environments:
            for reads, writes in ((here, there), (there, here)):
                binding = session.io_binding()
                for name, array in zip(self.inputs, (*first, *reads), strict=True):
                    binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
                for name, array in zip(self.outputs, (self.actions, *writes), strict=True):
                    binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
                self._bindings.append(binding)

    @property
    def state(self) -> list[np.ndarray]:
        """The current state of the environments."""
        return self._sides[0]

    def begin(self, rows: np.ndarray | slice) -> None:
        """Begin a new episode in these environments at their next step."""
        self.reset[rows] = True
        self._begins = True

    def run(self, session: onnxruntime.InferenceSession, observation: np.ndarray, reward: np.ndarray) -> np.ndarray:
        """Step all environments; returns a copy of the actions."""
        self.observation[...] = observation
        self.reward[...] = reward
        _call(session.run_with_iobinding, self._bindings[0])
        self._sides.reverse()
        self._bindings.reverse()
        if self._begins:
            self.reset[...] = False
            self._begins = False
        return self.actions.copy()


def _session(file: PolicyFile) -> onnxruntime.InferenceSession:
    """A session on one core: a step is too little work to share, and spinning threads would take cores from others."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors are raised, not logged
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Loading executes nothing: the export has folded constants, and a failed load is not retried with folding.
    settings = {"providers": ["CPUExecutionProvider"], "disabled_optimizers": ["ConstantFolding"], "enable_fallback": 0}
    return _call(onnxruntime.InferenceSession, file.data, options, **settings)


def _call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call onnxruntime, with InputError for its exceptions, whose classes are not public."""
    try:
        return function(*arguments, **options)
    except Exception as error:
        version, why = onnxruntime.__version__, " ".join(str(error).split())[:200]
        raise InputError(f"onnxruntime {version} cannot use the policy ({why}): export it again") from None
