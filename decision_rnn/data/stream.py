"""Training batches: slices of the stream of steps, with reset flags, and no padding anywhere."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from decision_rnn.data.episodes import EpisodeStore
from decision_rnn.errors import InputError


class Batch(NamedTuple):
    """B slices of K consecutive steps of the stream.

    `reset` is true at the first step of each episode; a slice may begin in the middle of one.
    """

    return_to_go: Tensor  # (B, K, 1) undiscounted, in the environment's units
    observation: Tensor  # (B, K, O)
    previous_action: Tensor  # (B, K, A), zeros at an episode's first step
    action: Tensor  # (B, K, A)
    timestep: Tensor  # (B, K) int64, steps since the episode's start
    reset: Tensor  # (B, K) bool


class StepStream:
    """Draws slices of `context` consecutive steps from a store, uniform over their first steps.

    `seen` is how many of an observation's first numbers the batches hold; None for all.
    The batches depend on `seed` alone, not on the device. Their tensors are views of one gathered block.
    Raises InputError when the store has fewer steps than one slice.
    """

    def __init__(
        self,
        store: EpisodeStore,
        context: int,
        batch_size: int,
        seed: int,
        device: torch.device | str = "cpu",
        seen: int | None = None,
    ) -> None:
        if store.steps < context:
            raise InputError(f"{store.path} has {store.steps} steps, fewer than context {context}: lower it")
        self.batch_size = batch_size
        self.columns = dict(store.columns)
        if seen is not None:
            first = self.columns["observation"].start
            self.columns["observation"] = slice(first, first + seen)
        self.generator = torch.Generator().manual_seed(seed)
        table = torch.from_numpy(store.table).to(device)
        width = table.shape[1]
        # Row i is steps i .. i+context-1: overlapping windows over one table, so that a batch is one gather.
        self.windows = table.as_strided((len(table) - context + 1, context, width), (width, width, 1))

    def sample(self) -> Batch:
        starts = torch.randint(len(self.windows), (self.batch_size,), generator=self.generator)
        block = self.windows.index_select(0, starts.to(self.windows.device))
        return Batch(
            return_to_go=block[..., self.columns["return_to_go"]],
            observation=block[..., self.columns["observation"]],
            previous_action=block[..., self.columns["previous_action"]],
            action=block[..., self.columns["action"]],
            timestep=block[..., self.columns["timestep"].start].long(),
            reset=block[..., self.columns["reset"].start].bool(),
        )

    def state_dict(self) -> dict[str, Any]:
        """What makes a resumed run draw the same batches."""
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])
