"""The recipes of docs/recipes.md, each on small data."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guide import ROOT, code_blocks

import decision_rnn

BLOCKS = {block.title or "": block.text for block in code_blocks(ROOT / "docs" / "recipes.md")}
Command = Callable[..., "subprocess.CompletedProcess[str]"]
SBATCH = """#!/bin/bash
for word; do
  case $word in --array=1-*) last=${word#--array=1-};; --wrap=*) script=${word#--wrap=};; esac
done
for task in $(seq $last); do SLURM_ARRAY_TASK_ID=$task bash -c "$script" || exit 1; done
"""


def replaced(text: str, **words: str) -> str:
    """A text with words in place of others, each of which it has."""
    for there, here in words.items():
        assert there in text
        text = text.replace(there, here)
    return text


def test_optuna_searches_on_the_held_out_loss(folders: Path, inline_cli: Command) -> None:
    pytest.importorskip("optuna", reason="needs pip install optuna")
    names: dict[str, Any] = {}
    small = {"steps=2000": "steps=4", "n_trials=20": "n_trials=2", "[64, 128, 256]": "[8, 16]"}
    small["training={"] = "training={'log_every': 2, 'batch_size': 8, "
    exec(replaced(BLOCKS["search.py"], **small), names)
    assert len(names["study"].trials) == 2
    losses = decision_rnn.Run("runs/search/0").metrics["validation_loss"]
    assert names["study"].trials[0].value == losses[-1]
    assert names["study"].best_value <= losses[-1]


def test_encoded_images_are_recorded_and_learnt_from(
    folders: Path, registries: None, inline_cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folders / "encoded.py").write_text(BLOCKS["encoded.py"])
    monkeypatch.syspath_prepend(str(folders))
    small = "--training.steps 3 --evaluation.episodes 2 --backbone.width 8 --processes 1"
    for line, more in zip(BLOCKS[""].splitlines(), ("", small), strict=True):
        done = inline_cli(*shlex.split(f"{line} {more}")[1:])
        assert done.returncode == 0, done.stderr
    episode = decision_rnn.open_dataset("local/line").store[0]
    image = sys.modules["encoded"].Line()
    first, _ = image.reset(seed=0)
    assert episode.observations[0] == pytest.approx(sys.modules["encoded"].encode(first), abs=1e-6)


def test_printed_commands_are_all_that_is_printed(inline_cli: Command) -> None:
    words = "compare hopper-medium --backbones mingru,lru --controls none --seeds 2 --print_commands"
    done = inline_cli(*words.split())
    lines = [shlex.split(line)[:2] for line in done.stdout.splitlines()]
    assert lines == [["decision-rnn", "train"]] * 4


@pytest.mark.slow
def test_array_of_a_scheduler_trains_a_comparison(tmp_path: Path) -> None:
    small = "--backbones mingru --controls none --training.steps 3 --evaluation.episodes 1 --backbone.width 8"
    small += " --checkpoint_episodes 0"
    script = replaced(BLOCKS["compare.sh"], **{"--backbones mingru,lru": small, "--seeds 5": "--seeds 2"})
    (tmp_path / "bin").mkdir()
    for name, text in {
        "sbatch": SBATCH,
        "srun": '#!/bin/bash\nexec "$@"\n',
        "decision-rnn": f'#!/bin/bash\nexec {sys.executable} {ROOT}/tests/small_cli.py "$@"\n',
    }.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    environment |= {"DECISION_RNN_CACHE": str(tmp_path / "cache"), "MINARI_DATASETS_PATH": str(tmp_path / "minari")}
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "commands.txt").read_text().splitlines()) == 2
    assert [trial.seed for trial in decision_rnn.read_comparison(tmp_path / "runs/array").trials] == [0, 1]
