"""Training batches: segments of the stream of steps, with reset flags, and no padding anywhere."""

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from decision_rnn.backbones.resets import send
from decision_rnn.data.hindsight import GoalEntries, HindsightGoals
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.errors import InputError

MAPPED_BYTES = 1 << 29  # a larger table is neither kept in memory nor on a GPU
BITS = torch.tensor([1, 2, 4], dtype=torch.uint8)[:, None, None]


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
    terminated: Tensor  # (B, K) bool, true at an episode's last step if it ended so
    truncated: Tensor  # (B, K) bool, likewise
    reset: Tensor  # (B, K) bool, true where the recurrent state is reset

    def select(self, rows: slice) -> "Batch":
        """Some of the segments, one after the other."""
        return Batch(*(tensor[rows] for tensor in self))


def _windows(rows: Tensor, context: int) -> Tensor:
    """All segments of consecutive rows of a contiguous tensor (steps, ...), as a view (starts, context, ...)."""
    return rows.as_strided((len(rows) - context + 1, context, *rows.shape[1:]), (rows.stride(0), *rows.stride()))


class WeightedStarts:
    """Samples first steps of segments, anywhere in an episode or at its beginning, by its return; see `StepStream`."""

    def __init__(self, store: EpisodeStore, context: int, weighting: float, at_beginnings: bool) -> None:
        returns = store.episode_returns
        spread = float(np.ptp(returns)) or 1.0
        self.weights = torch.from_numpy(np.exp(weighting * (returns - returns.min()) / spread))
        # No segment starts in the last context - 1 steps of the store.
        bounds = torch.from_numpy(store.offsets).clamp_max(store.steps - context + 1)
        choices = bounds.diff().clamp_max(1) if at_beginnings else bounds.diff()
        self.first, self.last = bounds[:-1], bounds[:-1] + choices - 1
        self.cumulative = (self.weights * choices).cumsum(0)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Sample `count` first steps, (count,) int64."""
        drawn = torch.rand(count, dtype=torch.float64, generator=generator) * self.cumulative[-1]
        episode = torch.searchsorted(self.cumulative, drawn, right=True).clamp_max(len(self.weights) - 1)
        before_end = ((self.cumulative[episode] - drawn) / self.weights[episode]).long()
        return torch.maximum(self.last[episode] - before_end, self.first[episode])  # rounding may leave the episode


class StepStream:
    """Draws segments of `context` consecutive steps from a store, uniform over their first steps.

    With `segment_start` `episode`, segments begin with an episode, drawn uniformly.

    With `return_weighting` w above 0, a first step is drawn with probability proportional to exp(w g), where g is its
    episode's return, scaled to 0 for the lowest of the store and 1 for the highest: the trajectory weighting of Hong et
    al., "Harnessing Mixed Offline Reinforcement Learning Datasets via Trajectory Weighting" (2023), with a temperature
    of 1 / w. They draw episodes this way; here an episode is also weighted by its length, as with uniform segments,
    unless `segment_start` is `episode`.

    With `tbptt_segments` above 1, every row of a batch continues where it ended in the previous batch, for that many
    segments on average: at each segment it restarts at a newly drawn first step with probability 1 / `tbptt_segments`,
    and always at the end of the stream.

    With `goals`, the goals in observations are replaced by what the episodes went on to reach, drawn with
    `goal_discount` and `p_randomgoal`, see `HindsightGoals`, and returns-to-go by minus the steps until then.

    With `own_rows`, only these of every batch are returned: all processes that train one agent draw the same batches.

    The batches depend only on `seed`, not on the device. Where episodes begin and end
    is computed on the host, from the store's offsets. The floating-point tensors are views of one gathered block.
    Memory does not grow with the table beyond `MAPPED_BYTES`. Raises InputError when the store has fewer steps than one
    segment.
    """

    def __init__(
        self,
        store: EpisodeStore,
        context: int,
        batch_size: int,
        seed: int,
        device: torch.device | str = "cpu",
        tbptt_segments: int = 1,
        return_weighting: float = 0.0,
        segment_start: Literal["anywhere", "episode"] = "anywhere",
        goals: GoalEntries | None = None,
        goal_discount: float = 1.0,
        p_randomgoal: float = 0.0,
        own_rows: slice = slice(None),
    ) -> None:
        if store.steps < context:
            raise InputError(f"{store.path} has {store.steps} steps, fewer than training.context {context}: lower it")
        self.context, self.batch_size, self.tbptt_segments = context, batch_size, tbptt_segments
        self.own_rows = own_rows
        self.file = store.file
        self.widths = [columns.stop - columns.start for columns in store.columns.values()]
        self.generator = torch.Generator().manual_seed(seed)
        self.device = torch.device(device)
        self.kept = self._map(self.device) if store.file.nbytes <= MAPPED_BYTES else None
        self.starts = store.steps - context + 1  # a segment starts at one of the first so many steps
        self.following = torch.full((batch_size,), self.starts)  # each row's next start; past the end: none yet
        at_beginnings = segment_start == "episode"
        uniform = return_weighting == 0 and not at_beginnings
        self.weighted = None if uniform else WeightedStarts(store, context, return_weighting, at_beginnings)
        self.goals = None
        if goals is not None:
            self.goals = HindsightGoals(store, goals, batch_size, self.generator, goal_discount, p_randomgoal)
        edges = np.zeros(store.steps, np.uint8)  # of every step, in bits: an episode begins, ends terminated, truncated
        edges[store.offsets[:-1]] = 1
        edges[store.offsets[1:] - 1] |= 2 * store.terminated.astype(np.uint8) + 4 * store.truncated.astype(np.uint8)
        self.edges = _windows(torch.from_numpy(edges), context)
        apart = store.first_rows - store.offsets[:-1]
        rows = np.repeat(apart, store.episode_lengths) + np.arange(store.steps) if apart.any() else None
        self.rows = None if rows is None else _windows(torch.from_numpy(rows), context)  # in the file, of a selection

    def sample(self) -> Batch:
        """The next batch."""
        if self.weighted is None:
            starts = torch.randint(self.starts, (self.batch_size,), generator=self.generator)
        else:
            starts = self.weighted.draw(self.batch_size, self.generator)
        if self.tbptt_segments > 1:
            elsewhere = torch.rand(self.batch_size, generator=self.generator) * self.tbptt_segments < 1
            elsewhere |= self.following >= self.starts
            starts = torch.where(elsewhere, starts, self.following)
            self.following = starts + self.context
        flags = (self.edges.index_select(0, starts) & BITS).bool()
        block = self._gather(starts)
        to_go, observation, previous_action, action, reward, timestep, _ = block.split_with_sizes(self.widths, -1)
        if self.goals is not None:
            ahead = self.goals.put(observation, starts, flags[0], ~elsewhere if self.tbptt_segments > 1 else None)
            to_go = -ahead.unsqueeze(-1).to(to_go)
        if self.tbptt_segments > 1:
            flags[0, :, 0] |= elsewhere
        begins, terminated, truncated = send(flags, self.device).unbind()
        batch = Batch(
            observation=observation,
            action=action,
            previous_action=previous_action,
            reward=reward[..., 0],
            return_to_go=to_go,
            timestep=timestep[..., 0].long(),
            terminated=terminated,
            truncated=truncated,
            reset=begins,
        )
        return batch if self.own_rows == slice(None) else batch.select(self.own_rows)

    def _map(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """The rows of the store's file, and all segments of them."""
        file = self.file
        table = torch.from_numpy(np.memmap(str(file.filename), file.dtype, "c", file.offset, file.shape)).to(device)
        return table, _windows(table, self.context)

    def _gather(self, starts: Tensor) -> Tensor:
        """The rows of the segments that start at (B,), as (B, K, columns)."""
        # A map that is kept would become resident: the system also loads the pages around each segment.
        table, windows = self.kept or self._map(torch.device("cpu"))
        if self.rows is None:  # copying whole windows is faster
            block = windows.index_select(0, send(starts, table.device))
        else:
            rows = self.rows.index_select(0, starts)
            block = table.index_select(0, send(rows.flatten(), table.device)).view(*rows.shape, -1)
        return block if self.kept else send(block, self.device)

    def state_dict(self) -> dict[str, Any]:
        """The state with which a resumed run samples the same batches."""
        state = {"generator": self.generator.get_state()}
        if self.tbptt_segments > 1:
            state["following"] = self.following
            if self.goals is not None:
                state["goal"] = self.goals.goal
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self.generator.set_state(state["generator"])
        if self.tbptt_segments > 1:
            self.following = state["following"]
            if self.goals is not None:
                self.goals.goal = state["goal"].expand(2, -1)  # (batch,) in checkpoints without random goals
