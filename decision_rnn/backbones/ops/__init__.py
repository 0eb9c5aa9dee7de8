"""What mixers share: the linear recurrence, kernels that know no resets, rotary positions."""
