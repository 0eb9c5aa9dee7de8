"""Training batches: slices of the stream of steps, with reset flags, and no padding anywhere."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from decision_rnn.backbones.resets import Resets
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.errors import InputError

MAPPED_BYTES = 1 << 29  # slices of a larger table are read from the file, not from a memory map or a GPU


class Batch(NamedTuple):
    """B slices of K consecutive steps of the stream, which may start in the middle of an episode.

    The state is reset at the first step of each episode and, if rows continue from batch to batch, of a slice that
    does not continue its row.
    """

    observation: Tensor  # (B, K, O)
    action: Tensor  # (B, K, A)
    previous_action: Tensor  # (B, K, A), zeros at an episode's first step
    reward: Tensor  # (B, K)
    return_to_go: Tensor  # (B, K, 1) undiscounted, in the environment's units
    timestep: Tensor  # (B, K) int64, steps since the episode's start
    terminated: Tensor  # (B, K) bool, true at an episode's last step if it ended so
    truncated: Tensor  # (B, K) bool, likewise
    reset: Resets  # where the recurrent state is reset, of (B, K)


class MappedTable:
    """A table that is memory-mapped or on a GPU."""

    def __init__(self, table: np.memmap, context: int, device: torch.device) -> None:
        self.rows = torch.from_numpy(table).to(device)
        width = table.shape[1]
        self.windows = self.rows.as_strided((len(table) - context + 1, context, width), (width, width, 1))

    def gather(self, starts: Tensor, rows: np.ndarray | None) -> Tensor:
        """The rows with the given numbers (B, K), as (B, K, columns); None for those that follow each start (B,)."""
        if rows is None:  # copying whole windows is faster
            return self.windows.index_select(0, _send(starts, self.rows.device))
        index = _send(torch.from_numpy(rows).flatten(), self.rows.device)
        return self.rows.index_select(0, index).view(*rows.shape, -1)


class TableFile:
    """A table that may exceed memory, read from its file on demand.

    A memory map would become fully resident, because the system also loads the pages around each slice.
    """

    def __init__(self, table: np.memmap, context: int, device: torch.device) -> None:
        self.file = open(str(table.filename), "rb", buffering=0)  # noqa: SIM115 - open as long as the stream
        self.first_byte, self.row_bytes, self.columns = table.offset, table.strides[0], table.shape[1]
        self.context, self.device = context, device

    def gather(self, starts: Tensor, rows: np.ndarray | None) -> Tensor:
        """As `MappedTable.gather`."""
        if rows is None:
            rows = starts.numpy()[:, None] + np.arange(self.context)
        block = np.empty((*rows.shape, self.columns), np.float32)
        for window, numbers, jumps in zip(block, rows, np.diff(rows) != 1, strict=True):
            for begin, end in pairwise([0, *(np.flatnonzero(jumps) + 1), len(window)]):
                consecutive = window[begin:end]
                self.file.seek(self.first_byte + int(numbers[begin]) * self.row_bytes)
                if self.file.readinto(consecutive.data) != consecutive.nbytes:
                    raise InputError(f"{self.file.name} was truncated while it was read: start again")
        return torch.from_numpy(block).to(self.device)


class WeightedStarts:
    """Samples the first steps of slices, with higher probability in episodes of higher return; see `StepStream`."""

    def __init__(self, store: EpisodeStore, context: int, weighting: float) -> None:
        returns = store.episode_returns
        spread = float(np.ptp(returns)) or 1.0
        self.weights = torch.from_numpy(np.exp(weighting * (returns - returns.min()) / spread))
        # No slice starts in the last context - 1 steps of the store.
        bounds = torch.from_numpy(store.offsets).clamp_max(store.steps - context + 1)
        self.first, self.last = bounds[:-1], bounds[1:] - 1
        self.cumulative = (self.weights * bounds.diff()).cumsum(0)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Sample `count` first steps, (count,) int64."""
        drawn = torch.rand(count, dtype=torch.float64, generator=generator) * self.cumulative[-1]
        episode = torch.searchsorted(self.cumulative, drawn, right=True).clamp_max(len(self.weights) - 1)
        before_end = ((self.cumulative[episode] - drawn) / self.weights[episode]).long()
        return torch.maximum(self.last[episode] - before_end, self.first[episode])  # rounding may leave the episode


class StepStream:
    """Draws slices of `context` consecutive steps from a store, uniform over their first steps.

    With `return_weighting` w above 0, a first step is drawn with probability proportional to exp(w g), where g is its
    episode's return, scaled to 0 for the lowest of the store and 1 for the highest: the trajectory weighting of Hong et
    al., "Harnessing Mixed Offline Reinforcement Learning Datasets via Trajectory Weighting" (2023), with a temperature
    of 1 / w. They draw episodes this way; here an episode is also weighted by its length, as with uniform slices.

    With `tbptt_slices` above 1, every row of a batch continues where it ended in the previous batch, for `tbptt_slices`
    slices on average: at each slice it restarts at a random place with probability 1 / `tbptt_slices`, and always at
    the end of the stream. With `clip_actions`, actions and previous actions are clipped to [-1, 1]. The batches depend
    only on `seed`, not on the device. Where episodes begin and end is computed on the host, from the store's offsets.
    The floating-point tensors are views of one gathered block. Memory does not grow with the table beyond
    `MAPPED_BYTES`. Raises InputError when the store has fewer steps than one slice.
    """

    def __init__(
        self,
        store: EpisodeStore,
        context: int,
        batch_size: int,
        seed: int,
        device: torch.device | str = "cpu",
        tbptt_slices: int = 1,
        clip_actions: bool = False,
        return_weighting: float = 0.0,
    ) -> None:
        if store.steps < context:
            raise InputError(f"{store.path} has {store.steps} steps, fewer than training.context {context}: lower it")
        self.store, self.context, self.batch_size, self.tbptt_slices = store, context, batch_size, tbptt_slices
        self.clip_actions = clip_actions
        self.widths = [columns.stop - columns.start for columns in store.columns.values()]
        self.generator = torch.Generator().manual_seed(seed)
        self.device = torch.device(device)
        reader = MappedTable if store.file.nbytes <= MAPPED_BYTES else TableFile
        # What to add to a step's number in the store to get its row in the file; None where they are the same.
        apart = store.first_rows - store.offsets[:-1]
        self.apart = apart if apart.any() else None
        self.table: MappedTable | TableFile = reader(store.file, context, self.device)
        self.starts = store.steps - context + 1  # a slice starts at one of the first so many steps
        self.following = torch.full((batch_size,), self.starts)  # each row's next start; past the end: none yet
        self.weighted = WeightedStarts(store, context, return_weighting) if return_weighting > 0 else None

    def sample(self) -> Batch:
        """The next batch."""
        if self.weighted is None:
            starts = torch.randint(self.starts, (self.batch_size,), generator=self.generator)
        else:
            starts = self.weighted.draw(self.batch_size, self.generator)
        if self.tbptt_slices > 1:
            elsewhere = torch.rand(self.batch_size, generator=self.generator) * self.tbptt_slices < 1
            elsewhere |= self.following >= self.starts
            starts = torch.where(elsewhere, starts, self.following)
            self.following = starts + self.context
        flags, rows, steps = self._flags(starts.numpy())
        block = self.table.gather(starts, self._rows(starts.numpy(), flags[0]))
        if self.tbptt_slices > 1:
            flags[0, :, 0] |= elsewhere.numpy()
            rows, steps = np.nonzero(flags[0])
        parts = dict(zip(self.store.columns, block.split_with_sizes(self.widths, -1), strict=True))
        if self.clip_actions:
            for name in ("previous_action", "action"):
                parts[name].clamp_(-1, 1)
        begins, terminated, truncated = _send(torch.from_numpy(flags), self.device).unbind()
        return Batch(
            observation=parts["observation"],
            action=parts["action"],
            previous_action=parts["previous_action"],
            reward=parts["reward"][..., 0],
            return_to_go=parts["return_to_go"],
            timestep=parts["timestep"][..., 0].long(),
            terminated=terminated,
            truncated=truncated,
            reset=Resets(begins, torch.from_numpy(rows), torch.from_numpy(steps)),
        )

    def _flags(self, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The flags (3, B, K) bool of the slices that start at (B,): an episode begins; it ends terminated, truncated.
        And the rows and steps where episodes begin.

        A boundary between two episodes is the first's end, unless the slice starts there, and the other's beginning,
        unless the slice ends there.
        """
        offsets = self.store.offsets
        low, high = np.searchsorted(offsets, [starts, starts + self.context + 1])  # from the first to the last edge
        counts = high - low
        row = np.repeat(np.arange(len(starts)), counts)
        episode = np.arange(len(row)) + np.repeat(high - np.cumsum(counts), counts)
        step = offsets[episode] - starts[row]
        flags = np.zeros((3, len(starts), self.context), bool)
        begins, ends = step < self.context, step > 0
        first = row[begins], step[begins]
        flags[0][first] = True
        last, episode = (row[ends], step[ends] - 1), episode[ends] - 1
        flags[1][last] = self.store.terminated[episode]
        flags[2][last] = self.store.truncated[episode]
        return flags, *first

    def _rows(self, starts: np.ndarray, begins: np.ndarray) -> np.ndarray | None:
        """The rows of a selection's file (B, K) of the slices that start at (B,), given where episodes begin."""
        if self.apart is None:
            return None
        first = np.searchsorted(self.store.offsets, starts, side="right") - 1
        episodes = first[:, None] + np.cumsum(begins, 1) - begins[:, :1]
        return starts[:, None] + np.arange(self.context) + self.apart[episodes]

    def state_dict(self) -> dict[str, Any]:
        """The state with which a resumed run samples the same batches."""
        state = {"generator": self.generator.get_state()}
        return {**state, "following": self.following} if self.tbptt_slices > 1 else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self.generator.set_state(state["generator"])
        if self.tbptt_slices > 1:
            self.following = state["following"]


def _send(x: Tensor, device: torch.device) -> Tensor:
    """Move x to the device; to a GPU from pinned memory, so that the host does not wait."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x
