"""What results depend on besides the code: versions, the commit and the hardware."""

import contextlib
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import decision_rnn


def versions(packages: Sequence[str]) -> dict[str, str]:
    """The versions of Python and of these packages."""
    # The metadata of an editable install keep the version at which it was installed.
    ours = {"decision-rnn": decision_rnn.__version__}
    return {"python": platform.python_version()} | {name: ours.get(name) or version(name) for name in packages}


def cpu_model() -> str:
    """The processor's name."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit() -> str | None:
    """The git commit of this source tree, with `-dirty` if files differ from it; None for an installed package."""
    root = Path(__file__).parents[2]
    command = ["git", "--git-dir", str(root / ".git"), "describe", "--always", "--dirty", "--abbrev=12"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    return None


def hardware() -> dict[str, Any]:
    """Processor, cores, and torch's threads and GPU in this process."""
    import torch  # heavy: workers that collect data import this module

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"cpu": cpu_model(), "cores": os.cpu_count(), "threads": torch.get_num_threads(), "gpu": gpu}


def describe_hardware(hardware: Mapping[str, Any]) -> str:
    """The result of `hardware` as text for reports: `NAME, 2 cores, GPU: none`."""
    return f"{hardware['cpu']}, {hardware['cores']} cores, GPU: {hardware['gpu'] or 'none'}"


def describe_versions(versions: Mapping[str, str]) -> str:
    """The result of `versions` as text for reports: `python 3.12.0, torch 2.12.0`."""
    return ", ".join(f"{name} {number}" for name, number in versions.items())
