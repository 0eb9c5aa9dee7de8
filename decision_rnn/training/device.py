"""The device and the precision of training."""

import torch

from decision_rnn.config import TrainingConfig
from decision_rnn.utils.errors import InputError


def pick_device(name: str) -> torch.device:
    """The device that `training.device` names; InputError if it is not available."""
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("training.device is cuda, but torch finds no CUDA device. Use cpu or auto.")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def autocast(settings: TrainingConfig, device: torch.device) -> torch.autocast:
    """The precision of matrix products that `training.precision` names; `auto` does not emulate bf16, which is slower
    than fp32. On CUDA, TF32 is switched off, which torch's recurrent layers use by default."""
    if device.type == "cuda":
        torch.backends.cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        native = torch.cuda.get_device_capability(device) >= (8, 0)
    else:
        native = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    bf16 = settings.precision == "bf16" or (settings.precision == "auto" and native)
    return torch.autocast(device.type, torch.bfloat16, enabled=bf16)
