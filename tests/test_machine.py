"""What the package asks of the machine."""

import platform
import subprocess
import sys

import pytest

PAGES = """
import resource, sys
import numpy as np
from decision_rnn.machine import keep_freed_memory

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
def test_freed_memory_is_not_fetched_again_page_by_page() -> None:
    faults = {}
    for mode in ("keep", "default"):
        child = subprocess.run([sys.executable, "-c", PAGES, mode], capture_output=True, text=True, check=True)
        faults[mode] = int(child.stdout)
    assert faults["keep"] < 0.1 * faults["default"]
