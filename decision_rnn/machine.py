"""What a number depends on beside the code: versions and hardware."""

import contextlib
import os
import platform
import subprocess
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


def commit() -> str | None:
    """The git commit of this source tree, marked `-dirty` where files differ from it; None for an installed package."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        return None
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def hardware() -> dict[str, Any]:
    """Processor, cores, and torch's threads and GPU in this process."""
    import torch  # here, because the collection's workers import this module and must start fast

    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
