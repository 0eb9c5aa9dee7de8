"""`decision-rnn data ...` as a user runs it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest

from decision_rnn.cli.main import main
from decision_rnn.data.dataset import dataset_names, open_dataset
from decision_rnn.data.sources.d4rl import D4RLSource, write_d4rl
from decision_rnn.data.store import EpisodeStore

NAME = "d4rl/hopper-medium-v2"
InlineCLI = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def file(store: EpisodeStore, folders: Path) -> Path:
    """A D4RL file of thirty Hopper-shaped episodes."""
    write_d4rl(folders / "hopper.hdf5", store)
    return folders / "hopper.hdf5"


def test_list_names_every_dataset_and_marks_those_that_are_ready(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "make", NAME, "--path", str(file)]) == 0
    assert f"{NAME}: 30 episodes" in capsys.readouterr().out
    assert main(["data", "list"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == dataset_names()
    assert [line.split()[0] for line in lines if line.endswith(" ready")] == [NAME]
    assert "minari/ID" in last


def test_info_prints_the_contents_and_plots_the_returns(
    file: Path, store: EpisodeStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "returns.png"
    assert main(["data", "info", NAME, "--path", str(file), "--plot", str(picture)]) == 0
    text = capsys.readouterr().out
    returns = store.episode_returns
    for expected in (
        "Hopper-v4: 11 observations, 3 actions",
        f"{store.steps:,}",
        "30 terminated, 0 truncated, 0 both, 0 partial",
        f"{returns.mean():.1f} ± {returns.std():.1f}, {returns.min():.1f} to {returns.max():.1f}",
        f"{100 * (returns.mean() + 20.272305) / (3234.3 + 20.272305):.1f}, ",
        "not D4RL's hopper-medium-v2",
        store.fingerprint,
    ):
        assert expected in text
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_verify_finds_a_flipped_bit_in_any_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verify = ["data", "verify", NAME, "--path", str(file)]
    arrays = sorted(open_dataset(NAME, path=file).store.path.glob("*.npy"))
    assert main(verify) == 0
    assert f"{sum(path.stat().st_size for path in arrays):,} bytes" in capsys.readouterr().out
    for array in arrays:
        content = array.read_bytes()
        array.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert main(verify) == 2
        assert array.name in capsys.readouterr().err
        array.write_bytes(content)


def test_partial_drop_is_recorded_and_prevents_a_resume(
    file: Path, store: EpisodeStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run with partial episodes dropped has another fingerprint; a run that kept them cannot resume without them."""
    with h5py.File(file, "a") as handle:
        handle["terminals"][-1] = False  # makes the last episode partial
    small = ["--training.steps", "1", "--training.context", "4", "--backbone.width", "16", "--evaluation.episodes", "1"]
    train = ["train", NAME, "--path", str(file), *small, "--processes", "1", "--output"]
    assert main([*train, str(tmp_path / "kept")]) == 0
    assert main([*train, str(tmp_path / "dropped"), "--partial", "drop"]) == 0
    paths = [next((tmp_path / name / "results").iterdir()) for name in ("kept", "dropped")]
    results = [json.loads(path.read_text()) for path in paths]
    assert [result["config"]["partial"] for result in results] == ["keep", "drop"]
    assert {result["dataset"]["environment_id"] for result in results} == {"Hopper-v4"}
    assert ["dropped" in result["dataset"]["comparable"] for result in results] == [False, True]
    assert results[0]["dataset"]["fingerprint"] != results[1]["dataset"]["fingerprint"]
    assert main([*train, str(tmp_path / "kept"), "--partial", "drop", "--resume"]) == 2
    assert "partial 'keep', not 'drop'" in capsys.readouterr().err
    assert main(["data", "info", NAME, "--path", str(file), "--partial", "drop"]) == 0
    text = capsys.readouterr().out
    assert f"1 of {len(store)} episodes ({store.episode_lengths[-1]} steps)" in text
    assert "29 terminated, 0 truncated, 0 both, 0 partial" in text


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("info {name}", "--path"),
        ("make {name} --path nowhere.hdf5", "nowhere.hdf5"),
        ("info {name} --path {file} --plot {file}/x.png", "{file}"),
        ("export {name} --path {file} --format d4rl --output {file}/x", "{file}"),
        ("export {name} --path {file} --format minari --output ../x-v0", "../x-v0"),
        ("export {name} --path {file} --format minari --output local/there-v0", "there-v0"),
    ],
)
def test_invalid_paths_are_refused_before_a_dataset_is_opened(
    file: Path, tmp_path: Path, arguments: str, name: str, monkeypatch: pytest.MonkeyPatch, inline_cli: InlineCLI
) -> None:
    """Opening a dataset may convert or collect it for minutes."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "minari" / "local" / "there-v0").mkdir(parents=True)
    if "{file}" in arguments:
        monkeypatch.setattr(D4RLSource, "open", lambda *_: pytest.fail("the dataset was opened"))
    done = inline_cli("data", *arguments.format(name=NAME, file=file).split(), "--quiet")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert name.format(file=file) in done.stderr


@pytest.mark.usefixtures("file")
def test_import_writes_a_log_and_names_what_is_wrong_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("run,x,u,r\n1,0.5,1,10\n1,0.6,1,20\n2,,1,5\n")
    words = ["data", "import", str(log), "--name", "local/log", "--observations", "x", "--actions", "u"]
    words += ["--reward", "r", "--episode"]
    for options, name in ((["ruin"], "'ruin'"), (["run"], "row 2")):
        assert main([*words, *options]) == 2
        assert name in capsys.readouterr().err
    assert main([*words, "run", "--missing", "drop_episode"]) == 0
    assert "local/log: 1 episode, 2 steps, returns 30.0 to 30.0" in capsys.readouterr().out
    assert main(["data", "export", "local/log", "--format", "d4rl", "--output", str(tmp_path / "log.hdf5")]) == 0
    assert main(["data", "import", str(tmp_path / "log.hdf5"), "--name", "local/again"]) == 0
    assert open_dataset("local/again").store.fingerprint == open_dataset("local/log").store.fingerprint
