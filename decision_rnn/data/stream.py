"""Training batches: segments of the stream of steps, with reset flags, and no padding anywhere."""

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from decision_rnn.data.faults import SensorFaults, seen_observations
from decision_rnn.data.hindsight import GoalEntries, HindsightGoals
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.errors import InputError

MAPPED_BYTES = 1 << 29  # a larger table is neither kept in memory nor on a GPU


def send(x: Tensor, device: torch.device | str) -> Tensor:
    """Move x from the host to the device, without waiting for it."""
    return x.pin_memory().to(device, non_blocking=True) if torch.device(device).type == "cuda" else x.to(device)


class Batch(NamedTuple):
    """B segments of K consecutive steps of the stream, which may start in the middle of an episode.

    The state is reset at the first step of each episode and, if rows continue from batch to batch, of a segment that
    does not continue its row.
    """

    observation: Tensor  # (B, K, O)
    action: Tensor  # (B, K, A)
    previous_action: Tensor  # (B, K, A), zeros at an episode's first step
    reward: Tensor  # (B, K)
    return_to_go: Tensor  # (B, K, 1) undiscounted; for goals in hindsight minus the number of steps until them
    timestep: Tensor  # (B, K) int64, steps since the episode's start
    reset: Tensor  # (B, K) bool, true where the recurrent state is reset
    subgoal: Tensor = torch.empty(0)  # (B, K, G), what is achieved `subgoal_steps` later; G is 0 without goals


def _windows(rows: Tensor, context: int) -> Tensor:
    """All segments of consecutive rows of a contiguous tensor (steps, ...), as a view (first steps, context, ...)."""
    return rows.as_strided((len(rows) - context + 1, context, *rows.shape[1:]), (rows.stride(0), *rows.stride()))


class StepStream:
    """Draws segments of `context` consecutive steps from a store, uniform over their first steps.

    With `segment_start` `episode`, segments begin with an episode, drawn uniformly.

    With `tbptt_segments` above 1 (`carries_state`), every row of a batch continues where it ended in the previous
    batch, for that many segments on average: at each segment it restarts at a newly drawn first step with probability
    1 / `tbptt_segments`, and at the end of the stream near its beginning, so that all steps are read equally often.

    With `goals`, the goals in observations are replaced by what the episodes went on to reach, drawn with
    `goal_discount` and `p_swappedgoal`, see `HindsightGoals`, and returns-to-go by minus the steps to them. With
    `subgoal_steps`, batches have what is achieved so many steps later, or before the goal expires.

    With `sensor_fault`, observations of random spells of steps are not seen, see `SensorFaults`.

    With `rows`, only these of every batch are read and returned: all processes that train one agent draw the same
    batches.

    The batches depend only on `seed`, not on the device. Where episodes begin and end is computed on the host, from the
    store's offsets. The floating-point tensors are views of one gathered block. Memory does not grow with the table
    beyond `MAPPED_BYTES`. Raises InputError when the store has fewer steps than one segment.
    """

    def __init__(
        self,
        store: EpisodeStore,
        context: int,
        batch_size: int,
        seed: int,
        device: torch.device | str = "cpu",
        tbptt_segments: int = 1,
        segment_start: Literal["anywhere", "episode"] = "anywhere",
        goals: GoalEntries | None = None,
        goal_discount: float = 1.0,
        p_swappedgoal: float = 0.0,
        subgoal_steps: int = 0,
        sensor_fault: Literal["none", "freeze", "zero", "noise"] = "none",
        sensor_fault_rate: float = 0.0,
        sensor_fault_steps: int = 1,
        rows: slice = slice(None),
    ) -> None:
        if store.steps < context:
            raise InputError(f"{store.path} has {store.steps} steps, fewer than training.context {context}: lower it")
        self.context, self.batch_size, self.rows = context, batch_size, rows
        self.tbptt_segments, self.carries_state = tbptt_segments, tbptt_segments > 1
        self.store = store
        self.widths = [columns.stop - columns.start for columns in store.columns.values()]
        self.generator = torch.Generator().manual_seed(seed)
        self.device = torch.device(device)
        kept = store.file.nbytes <= MAPPED_BYTES
        self.table = torch.from_numpy(store.file).to(self.device) if kept else None

        self.start_count = store.steps - context + 1  # a segment starts at one of the first so many steps
        self.next_start = torch.full((batch_size,), -1)  # of each row, which may be past the end; -1: it restarts
        self.beginnings = None
        if segment_start == "episode":
            self.beginnings = torch.from_numpy(store.offsets[store.offsets < self.start_count])
        self.goals = None
        if goals is not None:
            relabeling = goal_discount, p_swappedgoal, subgoal_steps
            self.goals = HindsightGoals(store, goals, batch_size, self.generator, *relabeling)

        self.faults = None
        if sensor_fault != "none":
            self.faults = SensorFaults(sensor_fault, sensor_fault_rate, sensor_fault_steps, self.generator)

        begins = np.zeros(store.steps, bool)
        begins[store.offsets[:-1]] = True
        self.begins = _windows(torch.from_numpy(begins), context)

        # The steps of a selection of episodes are not consecutive in the file.
        consecutive = np.array_equal(store.first_rows, store.offsets[:-1])
        self.file_rows = None if consecutive else _windows(torch.from_numpy(store.file_rows), context)

    def sample(self) -> Batch:
        """The next batch."""
        choices = self.start_count if self.beginnings is None else len(self.beginnings)
        start = torch.randint(choices, (self.batch_size,), generator=self.generator)
        if self.beginnings is not None:
            start = self.beginnings[start]
        continues = None
        if self.carries_state:
            within = self.next_start < self.start_count
            following = self.next_start % self.start_count
            if self.beginnings is not None:
                following *= within
            survives = torch.rand(self.batch_size, generator=self.generator) >= 1 / self.tbptt_segments
            survives &= self.next_start >= 0
            start, continues = torch.where(survives, following, start), survives & within
            self.next_start = start + self.context
        reset = self.begins.index_select(0, start)
        if self.goals is not None:
            goal, goal_steps, ahead = self.goals.draw(start, reset, continues, self.context)
        if self.faults is not None:
            faults = self.faults.draw(reset, self.store.observation_dim)

        block = self._gather(start[self.rows])
        to_go, observation, previous_action, action, reward, timestep, _ = block.split_with_sizes(self.widths, -1)
        subgoal = observation[..., :0]
        if self.goals is not None:
            goal_values = send(self.goals.achieved[goal[self.rows]], self.device)
            observation[..., self.goals.entries.desired] = goal_values
            subgoal = send(self.goals.achieved[ahead[self.rows]], self.device)
            to_go = send(-goal_steps[self.rows].unsqueeze(-1).to(to_go.dtype), self.device)
        if self.faults is not None:
            seen, instead = (send(part[self.rows], self.device) for part in faults)
            observation = seen_observations(observation, seen, instead)
        if continues is not None:
            reset[:, 0] |= ~continues
        return Batch(
            observation=observation,
            action=action,
            previous_action=previous_action,
            reward=reward[..., 0],
            return_to_go=to_go,
            timestep=timestep[..., 0].long(),
            reset=send(reset[self.rows], self.device),
            subgoal=subgoal,
        )

    def _gather(self, start: Tensor) -> Tensor:
        """The rows of the segments that start at (B,), as (B, K, columns)."""
        # A large map is opened for every batch: if it were kept, the pages around each segment would stay resident.
        table = torch.from_numpy(self.store.map_file()) if self.table is None else self.table
        if self.file_rows is None:  # copying whole windows is faster
            block = _windows(table, self.context).index_select(0, send(start, table.device))
        else:
            rows = self.file_rows.index_select(0, start)
            block = table.index_select(0, send(rows.flatten(), table.device)).view(*rows.shape, -1)
        return block if self.table is not None else send(block, self.device)

    def state_dict(self) -> dict[str, Any]:
        """The state with which a resumed run samples the same batches."""
        state = {"generator": self.generator.get_state(), "next_start": self.next_start}
        return state if self.goals is None else {**state, "goal": self.goals.goal}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self.generator.set_state(state["generator"])
        self.next_start = state["next_start"]
        if self.goals is not None:
            self.goals.goal = state["goal"]
