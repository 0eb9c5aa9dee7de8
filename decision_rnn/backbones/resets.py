"""Where episodes begin in a batch of slices."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Resets:
    """Where episodes begin in a batch of slices: the state before these steps is the initial state.

    Layers may read `mask` on their device, and the positions on the host, so that they never ask the device.

    Attributes:
        mask: (batch, time) bool, true where an episode begins, on the layers' device.
        rows: (resets,), int64 on the CPU: the batch row of each reset, ascending.
        steps: (resets,), int64 on the CPU: its step, ascending within a row.
    """

    mask: Tensor
    rows: Tensor
    steps: Tensor

    @classmethod
    def from_mask(cls, mask: Tensor) -> "Resets":
        """From a mask, (batch, time) bool; copies it from the device once."""
        rows, steps = mask.cpu().nonzero(as_tuple=True)
        return cls(mask, rows, steps)

    @classmethod
    def at(cls, rows: Tensor, steps: Tensor, shape: tuple[int, int], device: torch.device | str = "cpu") -> "Resets":
        """From positions on the host in any order, without waiting for the device.

        Args:
            rows, steps: (resets,), int64 on the CPU.
            shape: The slices' batch and time.
            device: The layers' device.
        """
        mask = torch.zeros(shape, dtype=torch.bool)
        mask[rows, steps] = True
        rows, steps = mask.nonzero(as_tuple=True)
        if torch.device(device).type == "cuda":
            mask = mask.pin_memory()
        return cls(mask.to(device, non_blocking=True), rows, steps)

    def __len__(self) -> int:
        return len(self.rows)

    def interleave(self, tokens: int, first: int) -> "Resets":
        """The resets of slices whose steps are `tokens` tokens each, of which `first` is an episode's first."""
        mask = self.mask.new_zeros(*self.mask.shape, tokens)
        mask[:, :, first] = self.mask
        return Resets(mask.flatten(1), self.rows, self.steps * tokens + first)
