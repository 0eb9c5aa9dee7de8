"""The Triton kernels of the recurrence: triton_cases.py in the interpreter and on a GPU, if any; and compilation."""

import inspect
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install triton")
interpreted = pytest.mark.skipif(
    tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7), reason="an interpreter that fails with numpy 2.4"
)
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")

GROUPS = {"kernels": "not contract", "contract": "contract"}


PLACES = [
    pytest.param("interpreter", "kernels", marks=interpreted),
    pytest.param("interpreter", "contract", marks=[interpreted, pytest.mark.slow]),  # 44 s of one core
    *(pytest.param("cuda", cases, marks=on_cuda) for cases in GROUPS),
]


@pytest.mark.parametrize(("where", "cases"), PLACES)
def test_triton_cases_pass_in_interpreter_and_on_cuda(where, cases):
    """In a separate process, since Triton reads whether to interpret only when it is imported."""
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", "-k", GROUPS[cases], "triton_cases.py"]
    environment = {**os.environ, "TRITON_INTERPRET": "1" if where == "interpreter" else "0"}
    found = subprocess.run(command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


LINEAR = [{"constant": c, "is_complex": z} for c, z in itertools.product([False, True], repeat=2)]
GATED = [{"gates": 1, "positive": True}, {"gates": 2, "positive": True}]
FORMS = [*LINEAR, *GATED, LINEAR[1] | {"time": 1}]  # Triton compiles an argument that is 1 as a constant


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("kernel", ["states_kernel", "adjoint_kernel"])
def test_triton_kernels_compile_for_hopper_gpus(kernel, form, tmp_path, monkeypatch):
    """To machine code, which needs no GPU; the interpreter does not detect what the compiler rejects."""
    from triton import language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from decision_rnn.backbones.ops import recurrence_triton

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    function = getattr(recurrence_triton, kernel)
    options = {"constant": False, "gates": 0, "positive": False, "is_complex": False, "resets": True}
    options |= {"dtype": tl.float32, "channels": 128, **form}
    numbers = {"time", "width"}
    parameters = inspect.signature(function.fn).parameters
    options = {name: value for name, value in options.items() if name in parameters}
    signature = {}
    for name in parameters:
        if name in options:
            signature[name] = "constexpr"
        elif name in numbers or name.endswith(("_row", "_time")):
            signature[name] = "i32"
        else:
            signature[name] = "*u8" if name == "reset" else "*fp32"
    compiled = triton.compile(ASTSource(function, signature, options), target=GPUTarget("cuda", 90, 32))
    assert compiled.asm["cubin"]
