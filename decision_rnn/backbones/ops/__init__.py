"""Operations that mixers share: the linear recurrence, resets for torch's kernels, rotary positions."""
