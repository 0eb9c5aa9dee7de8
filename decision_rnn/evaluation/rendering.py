"""Programs that render without a display, each in its own process: MuJoCo chooses its driver on import, by MUJOCO_GL,
and a driver that does not work can end the process."""

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

DRIVERS = ("egl", "osmesa") if sys.platform == "linux" else ("",)
"""The drivers that MuJoCo can use without a display, in the order in which they are tried."""


def render(program: str, asked: dict[str, Any], files: Sequence[Path], timeout: float) -> str | None:
    """Run a rendering program with the first driver that works.

    Args:
        program: The module to run; it passes its `main` to `run_program`.
        asked: Its input: written to its stdin as JSON.
        files: The files that it leaves on success.
        timeout: Timeout in seconds for each driver.

    Returns:
        None on success; otherwise the error of the last driver.
    """
    fault = ""
    for driver in (os.environ["MUJOCO_GL"],) if os.environ.get("MUJOCO_GL") else DRIVERS:
        environment = {**os.environ, **({"MUJOCO_GL": driver} if driver else {})}
        command = [sys.executable, "-m", program]
        try:
            done = subprocess.run(
                command, input=json.dumps(asked), env=environment, capture_output=True, text=True, timeout=timeout
            )
            said = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            said = f"it took longer than {timeout:.0f} seconds"
        if all(file.is_file() for file in files):
            return None
        fault = f"nothing renders here ({said[:200]}); on Linux, libegl1 with libegl-mesa0, or libosmesa6, lets it"
    return fault


def run_program(main: Callable[[dict[str, Any]], None]) -> None:
    """Call a rendering program's `main` with the JSON from stdin, and end the process."""
    status = 0
    try:
        main(json.load(sys.stdin))
    except Exception:
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)  # a driver's exit handlers may abort or print errors
