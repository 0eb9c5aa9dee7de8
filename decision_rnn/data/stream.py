"""Training batches: slices of the stream of steps, with reset flags, and no padding anywhere."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from decision_rnn.backbones.resets import Resets
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.errors import InputError

LARGE = 1 << 29  # bytes: slices of a larger table are read from the file, not from a memory map or a GPU


class Batch(NamedTuple):
    """B slices of K consecutive steps of the stream.

    A slice may start in the middle of an episode. `reset` is true where the recurrent state must be reset: at the first
    step of each episode and, if rows continue from batch to batch, of a slice that does not continue its row.
    """

    return_to_go: Tensor  # (B, K, 1) undiscounted, in the environment's units
    observation: Tensor  # (B, K, O)
    previous_action: Tensor  # (B, K, A), zeros at an episode's first step
    action: Tensor  # (B, K, A)
    timestep: Tensor  # (B, K) int64, steps since the episode's start
    reset: Resets


class MappedWindows:
    """All overlapping slices of a table that is memory-mapped or on a GPU; a batch is one gather.

    Window i is rows i .. i+context-1 of the table.
    """

    def __init__(self, table: np.memmap, context: int, device: torch.device) -> None:
        rows = torch.from_numpy(table).to(device)
        width = rows.shape[1]
        self.windows = rows.as_strided((len(rows) - context + 1, context, width), (width, width, 1))

    def __len__(self) -> int:
        return len(self.windows)

    def gather(self, starts: Tensor) -> Tensor:
        """The windows that start at `starts` (B,), as (B, context, columns)."""
        return self.windows.index_select(0, _send(starts, self.windows.device))


class FileWindows:
    """The same slices of a table that may exceed memory, read from the file on demand.

    A memory map would become fully resident, because the system also loads the pages around each slice.
    """

    def __init__(self, table: np.memmap, context: int, device: torch.device) -> None:
        self.file = open(str(table.filename), "rb", buffering=0)  # noqa: SIM115 - open as long as the stream
        self.first_byte, self.row_bytes = table.offset, table.strides[0]
        self.shape = (context, table.shape[1])
        self.length = len(table) - context + 1
        self.device = device

    def __len__(self) -> int:
        return self.length

    def gather(self, starts: Tensor) -> Tensor:
        """The windows that start at `starts` (B,), as (B, context, columns)."""
        block = np.empty((len(starts), *self.shape), np.float32)
        for window, start in zip(block, starts.tolist(), strict=True):
            self.file.seek(self.first_byte + start * self.row_bytes)
            if self.file.readinto(window.data) != window.nbytes:
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

    With `tbptt_slices` above 1, every row of a batch continues where it ended in the previous batch, for that many
    slices on average: at each slice it restarts at a random place with probability 1 / `tbptt_slices`, and always at
    the end of the stream. With `clip_actions`, actions and previous actions are clipped to [-1, 1]. The batches depend only on `seed`,
    not on the device. Their tensors are views of one gathered block. Memory does not grow with the table beyond
    `LARGE`. Raises InputError when the store has fewer steps than one slice.
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
        self.context, self.batch_size, self.tbptt_slices = context, batch_size, tbptt_slices
        self.clip_actions = clip_actions
        self.columns = store.columns
        self.generator = torch.Generator().manual_seed(seed)
        self.device = torch.device(device)
        windows = MappedWindows if store.table.nbytes <= LARGE else FileWindows
        self.windows: MappedWindows | FileWindows = windows(store.table, context, self.device)
        self.following = torch.full((batch_size,), len(self.windows))  # each row's next start; past the end: none yet
        self.weighted = WeightedStarts(store, context, return_weighting) if return_weighting > 0 else None

    def sample(self) -> Batch:
        if self.weighted is None:
            starts = torch.randint(len(self.windows), (self.batch_size,), generator=self.generator)
        else:
            starts = self.weighted.draw(self.batch_size, self.generator)
        if self.tbptt_slices > 1:
            elsewhere = torch.rand(self.batch_size, generator=self.generator) * self.tbptt_slices < 1
            elsewhere |= self.following >= len(self.windows)
            starts = torch.where(elsewhere, starts, self.following)
            self.following = starts + self.context
        block = self.windows.gather(starts)
        if self.clip_actions:
            for name in ("previous_action", "action"):
                block[..., self.columns[name]].clamp_(-1, 1)
        reset = block[..., self.columns["reset"].start].bool()
        if self.tbptt_slices > 1:
            reset[:, 0] |= _send(elsewhere, self.device)
        return Batch(
            return_to_go=block[..., self.columns["return_to_go"]],
            observation=block[..., self.columns["observation"]],
            previous_action=block[..., self.columns["previous_action"]],
            action=block[..., self.columns["action"]],
            timestep=block[..., self.columns["timestep"].start].long(),
            reset=Resets.from_mask(reset),
        )

    def state_dict(self) -> dict[str, Any]:
        """The state with which a resumed run samples the same batches."""
        state = {"generator": self.generator.get_state()}
        return {**state, "following": self.following} if self.tbptt_slices > 1 else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])
        if self.tbptt_slices > 1:
            self.following = state["following"]


def _send(x: Tensor, device: torch.device) -> Tensor:
    """Move x to the device; to a GPU from pinned memory, so that the host does not wait."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x
