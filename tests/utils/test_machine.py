"""Memory and thread settings of `decision_rnn.utils.machine`."""

import os
import platform
import subprocess
import sys

import pytest

PAGES = """
import resource, sys
import numpy as np
from decision_rnn.utils.machine import keep_freed_memory

def step():
    blocks = [np.ones(1 << 19) for _ in range(20)]  # 80 MiB in blocks of 4 MiB, freed at the end

if sys.argv[1] == "keep":
    keep_freed_memory()
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc's")
def test_keep_freed_memory_avoids_repeated_page_faults() -> None:
    faults = {}
    for mode in ("keep", "default"):
        child = subprocess.run([sys.executable, "-c", PAGES, mode], capture_output=True, text=True, check=True)
        faults[mode] = int(child.stdout)
    assert faults["keep"] < 0.1 * faults["default"]


SPINNING = """
import ctypes, importlib.util, os, sys
before = dict(os.environ)
import decision_rnn
assert dict(os.environ) == before
exec(sys.argv[1])
# What `import torch` loads first, with libgomp, without the seconds that the rest takes.
(torch,) = importlib.util.find_spec("torch").submodule_search_locations
ctypes.CDLL(torch + "/lib/libtorch_global_deps.so", ctypes.RTLD_GLOBAL)
decision_rnn.Episode
"""


@pytest.mark.skipif(sys.platform != "linux", reason="where torch brings libgomp")
@pytest.mark.parametrize(
    ("first", "settings", "value"),
    [
        ("decision_rnn.Episode; import torch", {}, "1000"),
        ("pass", {}, "300000"),
        ("pass", {"GOMP_SPINCOUNT": "7"}, "7"),
        ("decision_rnn.Episode", {"GOMP_SPINCOUNT": "7"}, "7"),
        ("decision_rnn.Episode", {"OMP_WAIT_POLICY": "passive"}, "0"),
    ],
)
def test_gomp_spincount_is_set_on_first_use_before_torch(first: str, settings: dict[str, str], value: str) -> None:
    others = {name: text for name, text in os.environ.items() if not name.startswith(("GOMP_", "OMP_"))}
    child = subprocess.run(
        [sys.executable, "-c", SPINNING, first],
        env={**others, **settings, "OMP_DISPLAY_ENV": "VERBOSE"},  # makes libgomp print the value that it read
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"GOMP_SPINCOUNT = '{value}'" in child.stderr
