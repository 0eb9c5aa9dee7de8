"""What a number depends on beside the code: versions, hardware, and how memory is kept."""

import contextlib
import ctypes
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)


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


def keep_freed_memory() -> None:
    """Let the C library keep what one training step frees for the next one.

    glibc hands large blocks and memory at the heap's end back to the system and fetches them again page by page: some
    600 pages a step of minGRU, 14,000 of Mamba, a twentieth of either's time.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not in musl
        if mallopt is not None:
            mallopt(M_MMAP_THRESHOLD, 32 << 20)  # its largest value
            mallopt(M_TRIM_THRESHOLD, 1 << 30)
