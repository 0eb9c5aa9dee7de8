"""The Triton kernels of the recurrence: triton_cases.py in the interpreter and on a GPU, if any; and compilation."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from decision_rnn.backbones.ops import recurrence, recurrence_triton  # noqa: E402

interpreted = pytest.mark.skipif(
    tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7), reason="an interpreter that fails with numpy 2.4"
)
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")


@pytest.mark.parametrize("where", [pytest.param("interpreter", marks=interpreted), pytest.param("cuda", marks=on_cuda)])
def test_triton_cases_pass_in_interpreter_and_on_cuda(where):
    """In a separate process, since Triton reads whether to interpret only when it is imported."""
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", "triton_cases.py"]
    environment = {**os.environ, "TRITON_INTERPRET": "1" if where == "interpreter" else "0"}
    found = subprocess.run(command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


FORMS = [*itertools.product([False, True], [False, True], ["i32"]), (False, False, "constexpr")]


@pytest.mark.parametrize(("backward", "is_complex", "time"), FORMS)
def test_triton_kernel_compiles_for_hopper_gpus(backward, is_complex, time, tmp_path, monkeypatch):
    """To machine code, which needs no GPU; the interpreter does not detect what the compiler rejects. Triton compiles a
    time of 1 as a constant."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    options = {"backward": backward, "is_complex": is_complex, "channels": 128}
    signature = {"a": "*fp32", "b": "*fp32", "carry": "*fp32", "h": "*fp32", "time": time, "width": "i32"}
    signature |= dict.fromkeys(options, "constexpr")
    constants = options | ({"time": 1} if time == "constexpr" else {})
    source = ASTSource(recurrence_triton.recurrence_kernel, signature, constants)
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]


@pytest.mark.parametrize("error", [RuntimeError("Failed to find C compiler"), subprocess.CalledProcessError(1, "gcc")])
def test_loop_runs_where_triton_finds_no_compiler(error, monkeypatch):
    """Triton compiles its launcher at the first call, by gcc with Python's headers."""

    def states(a, b, initial):
        raise error

    monkeypatch.setattr(recurrence_triton, "states", states)
    with pytest.warns(UserWarning, match="Triton"):
        assert recurrence._triton_kernels.__wrapped__(torch.device("cpu")) is None
