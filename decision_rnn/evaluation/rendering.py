"""Programs that draw without a screen, each a process of its own: how MuJoCo draws is decided where it is imported, by
MUJOCO_GL, and a driver that does not work can end the process."""

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

DRIVERS = ("egl", "osmesa") if sys.platform == "linux" else ("",)
"""What MuJoCo may draw with where there is no display, in the order they are tried."""


def render(program: str, asked: dict[str, Any], files: Sequence[Path], patience: float) -> str | None:
    """Have a program draw, with the first driver that can.

    Args:
        program: The module to run, whose `main` is `run_program`'s.
        asked: What it reads on stdin, as JSON.
        files: What it leaves when it has done all.
        patience: Seconds to wait for it, with each driver.

    Returns:
        None where it has done all; otherwise what the last driver failed with.
    """
    fault = ""
    for driver in (os.environ["MUJOCO_GL"],) if os.environ.get("MUJOCO_GL") else DRIVERS:
        environment = {**os.environ, **({"MUJOCO_GL": driver} if driver else {})}
        command = [sys.executable, "-m", program]
        try:
            done = subprocess.run(
                command, input=json.dumps(asked), env=environment, capture_output=True, text=True, timeout=patience
            )
            said = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            said = f"it took longer than {patience:.0f} seconds"
        if all(file.is_file() for file in files):
            return None
        fault = f"nothing renders here ({said[:200]}); on Linux, libegl1 with libegl-mesa0, or libosmesa6, lets it"
    return fault


def run_program(main: Callable[[dict[str, Any]], None]) -> None:
    """Run such a program on what it is asked on stdin, and end the process."""
    status = 0
    try:
        main(json.load(sys.stdin))
    except Exception:
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)  # a driver's own way of ending may abort or complain
