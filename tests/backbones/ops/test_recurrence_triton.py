"""The Triton kernels of the recurrence: triton_cases.py in the interpreter and on a GPU, if any; and compilation."""

import itertools
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402
from triton.runtime.errors import PTXASError  # noqa: E402

from decision_rnn.backbones.ops import recurrence, recurrence_triton  # noqa: E402

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")


@pytest.mark.parametrize("where", ["interpreter", pytest.param("cuda", marks=on_cuda)])
def test_triton_cases_pass(where):
    """In separate processes, since Triton reads whether to interpret only when it is imported. On CUDA in four, which
    compile some dozens of kernels, seconds each."""
    processes = "4" if where == "cuda" else "0"
    command = [sys.executable, "-m", "pytest", "-n", processes, "-p", "no:cacheprovider", "triton_cases.py"]
    environment = {**os.environ, "TRITON_INTERPRET": "1" if where == "interpreter" else "0"}
    found = subprocess.run(command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


FORMS = [
    *itertools.product([False, True], [False, True], [False, True], ["fp32"], ["aligned"]),
    *[(False, False, False, "bf16", "aligned"), (False, True, True, "fp32", "any"), (False, False, False, "fp32", "1")],
]


@pytest.mark.parametrize(("compose", "backward", "is_complex", "dtype", "width"), FORMS)
def test_triton_kernel_compiles_for_hopper_gpus(compose, backward, is_complex, dtype, width, tmp_path, monkeypatch):
    """To machine code, which needs no GPU; the interpreter does not detect what the compiler rejects. Triton compiles a
    width of 1 as a constant, and loads wider where the width and addresses are multiples of 16. With fewer steps at
    once than in use, which compile faster."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    options = {"compose": compose, "backward": backward, "is_complex": is_complex, "steps": 4, "columns": 64}
    signature = {"a": f"*{dtype}", "b": f"*{dtype}"} | dict.fromkeys(("initial", "decays", "ends", "h"), "*fp32")
    signature |= {"time": "i32", "width": "constexpr" if width == "1" else "i32", "length": "i32"}
    signature |= dict.fromkeys(options, "constexpr")
    constants = options | ({"width": 1} if width == "1" else {})
    aligned = [0, 1, 2, 3, 4, 5, 7] if width == "aligned" else []
    source = ASTSource(
        recurrence_triton.recurrence_kernel, signature, constants, {(i,): [["tt.divisibility", 16]] for i in aligned}
    )
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1}).asm["cubin"]


def test_time_is_split_where_programs_do_not_fill_the_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=132))
    count = partial(recurrence_triton.chunk_count, device=torch.device("cuda"))
    assert count(512 * 4, 64) == count(8 * 48, 1024) == 1  # enough programs
    assert count(4, 20) == count(1, 255) == 1  # little time
    assert 4 * 132 <= count(64, 8192) * 64 <= 8 * 132
    assert 1 < count(1, 512) <= 512 // 64


ERRORS = [RuntimeError("Failed to find C compiler"), subprocess.CalledProcessError(1, "gcc"), PTXASError("sm_999")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_loop_runs_where_triton_cannot_compile(error, monkeypatch):
    """Triton compiles its launcher at the first call, by gcc with Python's headers, and the kernel by ptxas."""

    def states(a, b, initial):
        raise error

    monkeypatch.setattr(recurrence_triton, "states", states)
    with pytest.warns(UserWarning, match="Triton"):
        assert recurrence._triton_kernels.__wrapped__(torch.device("cpu")) is None
