"""What a number depends on beside the code: versions and hardware."""

import contextlib
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any


def versions(packages: Sequence[str]) -> dict[str, str]:
    """The versions of Python and of these packages."""
    return {"python": platform.python_version(), **{package: version(package) for package in packages}}


def cpu_model() -> str:
    """The processor's name."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def hardware() -> dict[str, Any]:
    """Processor, cores, and torch's threads and GPU in this process."""
    import torch  # here, because the collection's workers import this module and must start fast

    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
