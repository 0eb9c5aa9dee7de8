"""`scripts/gpu.py` on the CPU with tiny sizes, and what becomes of a part that fails; no test asserts a time."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import gpu
import pytest
from measure import Row

sys.path.remove(str(Path(gpu.__file__).with_name("bench")))  # tests of plugins have modules of the same names


@pytest.mark.slow
def test_every_part_runs_on_the_cpu(tmp_path: Path) -> None:
    command = [sys.executable, gpu.__file__, "--smoke", "--output", str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=400)
    parts = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    errors = {name: part["errors"] for name, part in parts.items() if part["errors"]}
    assert errors.keys() == (set() if find_spec("triton") else {"scan"}), (errors, process.stderr)
    assert parts.keys() == gpu.SECONDS.keys()
    values = {row["name"]: row["value"] for part in parts.values() for row in part["rows"]}
    assert values["contract/passed"] > values["contract/failed"] == values["contract/not run"] == 0
    assert values["learning/largest difference of a loss after resumption"] == 0  # exact on a CPU
    assert values["steps/mingru/2/bf16"] > 0 < values["scan/2x4x8/complex64/forward and backward"]
    assert all(f"| {name} |" in (tmp_path / "README.md").read_text() for name in (*parts, *values))


def test_rows_before_an_error_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(sizes: gpu.Sizes) -> gpu.Rows:
        yield Row("fails/first", 1.0, "ms")
        raise MemoryError("too large")

    monkeypatch.setitem(gpu.PARTS, "scan", fails)
    gpu.run_part("scan", gpu.SMOKE, tmp_path / "rows")
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"], start_new_session=True)
    part = gpu.finish_part("scan", process, tmp_path / "rows")
    assert [row["name"] for row in part["rows"]] == ["fails/first"]
    assert ["3" in part["errors"][0], "MemoryError" in part["errors"][1]] == [True, True]


def test_part_that_hangs_ends_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gpu.SECONDS, "scan", 0.2)
    process = subprocess.Popen(["sleep", "100"], start_new_session=True)
    part = gpu.finish_part("scan", process, tmp_path / "missing")
    assert process.poll() is not None
    assert len(part["errors"]) == 1


@pytest.mark.slow
def test_results_of_tests_do_not_wait_for_processes_that_outlive_pytest(tmp_path: Path) -> None:
    """As pytest-xdist's do for up to fifteen seconds after pytest is killed at its limit, shortly before the part's."""
    test, number, ended = (tmp_path / name for name in ("test_slow.py", "process", "ended"))
    test.write_text(f"""
import os, pathlib, subprocess

def test_that_leaves_a_process():
    command = ["sh", "-c", "sleep 40; touch {ended}"]
    output = open(f"/proc/{{os.getppid()}}/fd/1", "a")  # pytest's own
    process = subprocess.Popen(command, stdout=output, start_new_session=True)
    pathlib.Path("{number}").write_text(str(process.pid))
""")
    rows = list(gpu.contract(replace(gpu.SMOKE, contract=(str(test),))))
    os.killpg(int(number.read_text()), signal.SIGKILL)
    assert not ended.exists()
    assert [row.value for row in rows] == [1, 0, 0, 0, 0]


def test_numbers_of_the_kernel_are_tested_on_the_gpu() -> None:
    """And not in Triton's interpreter, which the name of a test alone does not choose."""
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "pytest", "-n0", "-o", "addopts=", "--collect-only", "-q", gpu.CUDA_TESTS[0]]
    options = {"cwd": gpu.ROOT, "capture_output": True, "text": True}
    names = subprocess.run([*command, "-k", gpu.FAST], **options).stdout
    assert ["[cuda]" in names, "[interpreter]" in names] == [True, False], names
