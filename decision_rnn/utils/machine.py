"""What results depend on besides the code: versions, hardware, memory allocation and how threads wait."""

import contextlib
import ctypes
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

SPIN_SETTINGS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""Variables that libgomp reads once, when loaded: how long its threads spin while they wait for each other."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)


def versions(packages: Sequence[str]) -> dict[str, str]:
    """The versions of Python and of these packages."""
    # The metadata of an editable install keep the version at which it was installed.
    ours = {"decision-rnn": sys.modules["decision_rnn"].__version__}
    return {
        "python": platform.python_version(),
        **{package: ours.get(package) or version(package) for package in packages},
    }


def cpu_model() -> str:
    """The processor's name."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit() -> str | None:
    """The git commit of this source tree, with `-dirty` if files differ from it; None for an installed package."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def hardware() -> dict[str, Any]:
    """Processor, cores, and torch's threads and GPU in this process."""
    import torch  # here, because the workers that collect data import this module and must start fast

    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def describe_hardware(hardware: Mapping[str, Any]) -> str:
    """The result of `hardware` as text for reports: `NAME, 2 cores, GPU: none`."""
    return f"{hardware['cpu']}, {hardware['cores']} cores, GPU: {hardware['gpu'] or 'none'}"


def describe_versions(versions: Mapping[str, str]) -> str:
    """The result of `versions` as text for reports: `python 3.12.0, torch 2.12.0`."""
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def keep_freed_memory() -> None:
    """Let the C library keep the memory that a training step frees for the next step.

    By default glibc returns large blocks and memory at the end of the heap to the system and gets them back page by
    page: about 600 pages per step for minGRU, 14,000 for Mamba, a twentieth of the time of either.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not in musl
        if mallopt is not None:
            mallopt(M_MMAP_THRESHOLD, 32 << 20)  # its largest value
            mallopt(M_TRIM_THRESHOLD, 1 << 30)


def limit_spinning() -> None:
    """Let OpenMP threads that wait for each other sleep soon, unless the user has set how long they spin.

    By default libgomp's threads spin for milliseconds: a training step on two cores then takes 15 ms on an idle machine
    and 300 ms beside other work; with this setting, 18 and 47 ms. It has to be set before torch loads libgomp.
    """
    if not any(name in os.environ for name in SPIN_SETTINGS):
        os.environ["GOMP_SPINCOUNT"] = "1000"  # inherited by processes started from here
