"""A real notebook, run cell by cell in a kernel: progress bars, forked processes, interrupts."""

from pathlib import Path

import pytest

pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

CELLS = (
    """
import os, signal
import decision_rnn

options = {"backbone": {"name": "mingru", "width": 16, "layers": 1}, "training": {"log_every": 10}}
run = decision_rnn.train("local/swing", steps=100, output="run", **options)
""",
    """
print(run.evaluate([90.0], episodes=60, processes=2))
""",
    """
silent = decision_rnn.train("local/swing", steps=20, output="silent", progress=False, **options)
silent.evaluate([90.0], episodes=1, progress=False);
""",
    """
def stop(step, metrics, agent):  # what the stop button sends
    if step == 30:
        os.kill(os.getpid(), signal.SIGINT)
decision_rnn.train("local/swing", steps=200, output="stopped", callback=stop, **options)
""",
    """
decision_rnn.train("local/swing", steps=200, output="stopped", resume=True, **options).agent.step
""",
)


@pytest.mark.slow
def test_notebook_trains_evaluates_is_interrupted_and_resumes(inside: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    client = nbclient.NotebookClient(notebook, timeout=500, kernel_name="python3", allow_errors=True)
    client.execute(cwd=str(inside))
    trained, evaluated, silent, stopped, resumed = notebook.cells

    def text(cell: dict) -> str:
        return "".join(output.get("text", "") + str(output.get("data", "")) for output in cell["outputs"])

    assert "100/100" in text(trained)
    assert "60/60" in text(evaluated)
    assert "60 episodes per target" in text(evaluated)
    assert silent["outputs"] == []
    (error,) = (output for output in stopped["outputs"] if output["output_type"] == "error")
    assert error["ename"] == "KeyboardInterrupt"
    assert "step 30" in error["evalue"]
    assert "200" in text(resumed)
    for cell in (trained, evaluated, resumed):
        assert not [output for output in cell["outputs"] if output["output_type"] == "error"]
        assert "Warning" not in text(cell)
