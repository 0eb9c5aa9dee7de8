"""A run's folder: one process at a time, kills at the worst moments, and full disks."""

import json
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from run_config import parse_run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from decision_rnn.config import RunConfig, to_dict
from decision_rnn.data.store import EpisodeStore
from decision_rnn.runs.folder import MetricsLog, check_resumed_run, last_checkpoint, read_metrics, write_config
from decision_rnn.training.train import train
from decision_rnn.utils.errors import InputError, MachineError

pytestmark = pytest.mark.usefixtures("small_store")

ARGUMENTS = ["hopper-medium", "--backbone.width", "16", "--training.steps", "12", "--training.log_every", "2"]
ARGUMENTS += ["--training.checkpoint_every", "4"]

TRAIN = """
import json, os, signal, sys
from pathlib import Path
import torch
from decision_rnn.config import from_dict
from decision_rnn.data.sources.standin import StandinSource
from decision_rnn.data.store import EpisodeStore
from decision_rnn.training.train import train

torch.set_num_threads(1)
store = EpisodeStore.open(Path(sys.argv[1]))
StandinSource.open = lambda source, name, path: store
{before}
train(from_dict(json.loads(sys.argv[3])), output=sys.argv[2])
"""


def configure(*arguments: str) -> RunConfig:
    return parse_run("test", [*ARGUMENTS, *arguments])[0]


def weights(run: Path) -> bytes:
    return (last_checkpoint(run) / "weights.safetensors").read_bytes()


def train_and_be_killed(store: EpisodeStore, run: Path, before: str) -> None:
    script, config = TRAIN.format(before=before), json.dumps(to_dict(configure()))
    command = [sys.executable, "-c", script, str(store.path), str(run), config]
    assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == -signal.SIGKILL


KILLED_AT_RENAME = """
replace = Path.replace

def dies(path, target):
    if str(target).endswith({target!r}):
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(path, target)

Path.replace = dies
"""
KILLED_AT_REMOVAL = """
import shutil

def dies(path, *arguments, **options):
    for file in Path(path).rglob("config.json"):
        file.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    rmtree(path, *arguments, **options)

rmtree, shutil.rmtree = shutil.rmtree, dies
"""


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """The operating system refuses to let any file grow past `size` bytes, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("started", "resumed", "named"),
    [
        ("--condition none", "", "condition.name 'none', not 'return_to_go'"),
        ("", "--condition none", "condition.name 'return_to_go', not 'none'"),
        ("--condition.rtg_quantile 0.5", "", "condition.rtg_quantile 0.5, not 0.8"),
        ("--objective gmm", "", "objective.name 'gmm', not 'mse'"),
        ("--training.warmup_steps 1", "", "training.warmup_steps 1, not 3"),
        ("--training.tbptt_segments 3", "", "training.tbptt_segments 3, not 50"),
        ("", "--training.optimizer muon", "training.optimizer 'adamw', not 'muon'"),
        ("", "--training.goal_relabeling hindsight", "training.goal_relabeling 'none', not 'hindsight'"),
        ("--backbone mlp", "--backbone mingru", "backbone.name 'mlp', not 'mingru'"),
        ("", "--training.steps 2", "training.steps 12, not 2"),
    ],
)
def test_run_resumed_with_another_value_is_refused(tmp_path: Path, started: str, resumed: str, named: str) -> None:
    """Even where one of them leaves the value open, and even if the key is in one of them alone."""
    write_config(configure(*started.split()), tmp_path)
    with pytest.raises(InputError, match=re.escape(named)):
        check_resumed_run(configure(*resumed.split()), tmp_path)


@pytest.mark.parametrize(
    "default",
    [
        *("--condition return_to_go", "--condition.rtg_quantile 0.8", "--objective mse", "--training.optimizer adamw"),
        *("--training.learning_rate 1e-3", "--training.warmup_steps 3", "--training.tbptt_segments 50"),
        "--training.goal_discount 1",
    ],
)
def test_explicit_default_resumes_what_a_run_left_open(tmp_path: Path, default: str) -> None:
    """And the other way round. The run keeps how it was written, by which its results are found."""
    configs = configure(), configure(*default.split())
    for started, resumed in (configs, configs[::-1]):
        write_config(started, tmp_path)
        evaluation = replace(resumed.evaluation, episodes=3)
        merged = check_resumed_run(replace(resumed, evaluation=evaluation), tmp_path)
        assert merged == replace(started, evaluation=evaluation)


def test_run_killed_while_writing_its_first_checkpoint_resumes(store: EpisodeStore, tmp_path: Path) -> None:
    train(configure(), output=tmp_path / "whole")
    train_and_be_killed(store, tmp_path / "killed", KILLED_AT_RENAME.format(target="checkpoints/4"))
    assert [path.name for path in (tmp_path / "killed" / "checkpoints").iterdir() if path.name[0] != "."] == []
    time.sleep(1)  # TensorBoard orders its files by the second
    train(configure(), output=tmp_path / "killed", resume=True)
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")
    assert sorted(path.name for path in (tmp_path / "killed" / "checkpoints").iterdir()) == ["12", "8"]
    # TensorBoard shows steps that were trained twice only once.
    events = EventAccumulator(str(tmp_path / "killed")).Reload().Scalars("training/loss")
    assert [event.step for event in events] == [2, 4, 6, 8, 10, 12]


def test_full_disk_at_a_checkpoint_raises_and_can_be_resumed(tmp_path: Path) -> None:
    with (
        disk_of(10_000),
        pytest.raises(MachineError, match=r"checkpoint.*File too large"),
    ):
        train(configure(), output=tmp_path / "run")
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []
    train(configure(), output=tmp_path / "run", resume=True)
    assert last_checkpoint(tmp_path / "run").name == "12"


def test_run_goes_on_from_before_a_damaged_checkpoint(tmp_path: Path) -> None:
    train(configure(), output=tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    whole = weights(tmp_path / "run")
    for file in (folder / "12").iterdir():
        file.unlink()
    with pytest.raises(InputError, match="to go on from the checkpoint before"):
        train(configure(), output=tmp_path / "run", resume=True)
    (folder / "12").rmdir()  # as the error says
    train(configure(), output=tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == whole


def test_run_killed_while_removing_keeps_complete_checkpoints(store: EpisodeStore, tmp_path: Path) -> None:
    train_and_be_killed(store, tmp_path / "run", KILLED_AT_REMOVAL)
    folders = [path for path in (tmp_path / "run" / "checkpoints").iterdir() if path.name.isdigit()]
    assert folders
    assert all((folder / "config.json").is_file() for folder in folders)
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "12")
    train(configure(), output=tmp_path / "run", resume=True)
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == ["12", "8"]


HOLDER = """
import sys
from pathlib import Path
from decision_rnn.utils.files import working_alone
with working_alone(Path(sys.argv[1]), "training", "training"):
    print("training", flush=True)
    sys.stdin.readline()
"""


def test_lock_excludes_a_second_process_until_one_is_killed(tmp_path: Path) -> None:
    run = tmp_path / "deep" / "run"
    command = [sys.executable, "-c", HOLDER, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "training\n"
        with pytest.raises(InputError, match=rf"another process is training in {run}"):
            train(configure(), output=run)
        holder.kill()
    train(configure(), output=run)


def test_refused_run_leaves_no_new_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not a run folder"):
        train(configure(), output=tmp_path / "deep" / "run", resume=True)
    assert list(tmp_path.iterdir()) == []


def test_metrics_skip_malformed_lines_and_log_goes_on_after_them(tmp_path: Path) -> None:
    assert read_metrics(tmp_path) == []
    lines = [b'{"step": 2, "loss": 1.0}', b"{}", b"2", b"\xff", b'{"step": 4, "loss": 0.5}', b'{"st']
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join(lines))
    assert [line["step"] for line in read_metrics(tmp_path)] == [2, 4]
    written = MetricsLog(tmp_path, configure(), 4, 0.0).write(6, loss=0.25)
    assert [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [2, 4, 6]
    assert read_metrics(tmp_path)[-1] == written


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of TensorBoard's writer
@pytest.mark.parametrize("name", ["m" * 300, "m"])
def test_full_disk_while_writing_metrics_raises(tmp_path: Path, name: str) -> None:
    """Of TensorBoard's file and metrics.jsonl, either may reach the limit first."""
    log = MetricsLog(tmp_path, configure(), 0, 0.0)
    with disk_of(5_000), pytest.raises(MachineError, match=r"cannot write .*File too large"):
        for step in range(1, 10_000):
            log.write(step, **{name: 1.0})
    MetricsLog(tmp_path, configure(), 3, 0.0).write(4)
    assert [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [1, 2, 3, 4]
