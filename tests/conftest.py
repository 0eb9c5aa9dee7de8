"""Fixtures shared by the tests: nothing here touches the user's own folders."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from agent_specs import agent_spec
from gymnasium.spaces import Box
from small_cli import NAME, STEPS
from swing import CAR, LIMIT, SMALL, push

import decision_rnn
from decision_rnn import Run
from decision_rnn.agent import CONDITIONS, OBJECTIVES, DecisionAgent
from decision_rnn.backbones import BACKBONES
from decision_rnn.cli.main import main
from decision_rnn.config import from_dict
from decision_rnn.data.sources import SOURCES, d4rl, ogbench, standin
from decision_rnn.data.sources.standin import StandinSource
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.registry import make_environment
from decision_rnn.environments.spaces import described_spaces
from decision_rnn.evaluation import video
from decision_rnn.evaluation.metrics import METRICS
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.utils.registry import Registry

torch.set_num_threads(1)  # tests run in parallel, and more threads than cores would slow them down
# Of the processes that pytest-xdist starts: a fork there would have to stop OpenBLAS's threads, and wait for them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# In a background job of a shell, which the tests may be, SIGINT is ignored, also by the processes that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

FOLDERS = {"DECISION_RNN_DATA": "data", "DECISION_RNN_CACHE": "cache", "MINARI_DATASETS_PATH": "minari"}
SMALL_CLI = Path(__file__).parent / "small_cli.py"
SILENT = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
"""Warnings that Python ignores by default."""


def pytest_collection_finish() -> None:
    """Leave what the imports made, half a million objects, out of every garbage collection from here on."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def no_folders_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests that name no folders of their own write into these."""
    with pytest.MonkeyPatch.context() as patch:
        use_folders(tmp_path_factory.mktemp("folders"), patch)
        yield


def use_folders(root: Path, patch: pytest.MonkeyPatch) -> None:
    for variable, name in FOLDERS.items():
        patch.setenv(variable, str(root / name))


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder with local data in `data`, the cache in `cache` and Minari's datasets in `minari`; there is no
    network."""
    use_folders(tmp_path, monkeypatch)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for source in (d4rl, ogbench):
        monkeypatch.setattr(source, "ADDRESS", "https://127.0.0.1:9/")
    return tmp_path


@pytest.fixture(scope="session")
def certificate_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The key and the certificate of a server at 127.0.0.1, made anew."""
    file, key = (tmp_path_factory.mktemp("certificate") / name for name in ("server.pem", "key.pem"))
    names = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    command = ("openssl", "req", "-x509", *kind, *names, "-keyout", key, "-out", file)
    subprocess.run(command, check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + key.read_bytes())
    return file


@pytest.fixture
def certificate(certificate_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`certificate_file`, which clients in this process trust."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate_file))
    return certificate_file


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """Thirty Hopper-shaped episodes whose action is a fixed function of observation and previous action."""
    generator = np.random.default_rng(0)
    weights = generator.normal(0, 0.5, (11, 3))

    def episode(length: int) -> Episode:
        observations = generator.normal(1, 2, (length + 1, 11))
        actions = np.zeros((length, 3), np.float32)
        for t in range(length):
            actions[t] = np.tanh((observations[t] - 1) / 2 @ weights + 0.5 * actions[t - 1] * (t > 0))
        return Episode(observations, actions, generator.normal(3, 1, length), True, False)

    path = tmp_path_factory.mktemp("store") / "small"
    episodes = [episode(int(generator.integers(5, 60))) for _ in range(30)]
    spaces = None, Box(-1.0, 1.0, (3,))
    return EpisodeStore.write(path, episodes, environment_id="Hopper-v5", source={}, spaces=spaces)


@pytest.fixture
def small_store(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> EpisodeStore:
    """The store as what every dataset opens as, so that none collects a million steps."""
    monkeypatch.setattr(StandinSource, "open", lambda source, name, path: store)
    return store


@pytest.fixture
def registries() -> Iterator[None]:
    """Removes what a test registers afterwards."""
    registered: list[Registry[Any]] = [BACKBONES, CONDITIONS, OBJECTIVES, SOURCES, METRICS]
    before = [dict(registry) for registry in registered]
    yield
    for registry, entries in zip(registered, before, strict=True):
        registry.clear()
        registry.update(entries)


@pytest.fixture(scope="session")
def small_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables of a process that has its own cache and Minari folder, shared by a test session."""
    root = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        root = root.parent  # shared by all workers, so that the small dataset is made once
    folders = {"DECISION_RNN_CACHE": str(root / "cache"), "MINARI_DATASETS_PATH": str(root / "minari")}
    return {**os.environ, **folders, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def small_cli(small_environment: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `decision-rnn` with hopper-medium cut to a few thousand steps, in a process and folder of its own."""

    def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(SMALL_CLI), *arguments]
        return subprocess.run(
            command, env=small_environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, **options
        )

    return run


@pytest.fixture
def inline_cli(
    small_environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Like `small_cli`, on the same data, but in this process, which saves the seconds that imports take.

    `compare` must train in this process too, by `small_comparison.Inline`: other processes know the full-size
    hopper-medium only. A warning that a process would print is an error.
    """
    for name in ("DECISION_RNN_CACHE", "MINARI_DATASETS_PATH"):
        monkeypatch.setenv(name, small_environment[name])
    monkeypatch.setitem(standin.RECIPES, NAME, replace(standin.RECIPES[NAME], steps=STEPS))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for silent in SILENT:
                warnings.simplefilter("ignore", silent)
            try:
                code = main(arguments)
            except SystemExit as ended:  # --help
                code = ended.code or 0
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    return run


@pytest.fixture(scope="session")
def swing_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data folders, the dataset `local/swing` of the mountain car, and a run of 20 steps, `swing-up`."""
    folder = tmp_path_factory.mktemp("swing")
    with pytest.MonkeyPatch.context() as patch:
        enter_swing(folder, patch)
        decision_rnn.record(push, CAR, "local/swing", episodes=4, progress=False)
        options: dict[str, Any] = {"training": {"log_every": 10}, "progress": False}
        decision_rnn.train("local/swing", SMALL, steps=20, output=folder / "swing-up", **options)
    return folder


def enter_swing(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Use the data folders, and end the car's episodes early, since agents that are hardly trained drive on."""
    use_folders(folder, patch)
    patch.setattr(gymnasium.spec(CAR), "max_episode_steps", LIMIT)


@pytest.fixture
def inside(swing_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh working folder, with the data folders that hold `local/swing`."""
    enter_swing(swing_folder, monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(swing_folder: Path, inside: Path) -> Run:
    """The run of 20 steps on `local/swing`."""
    return Run(swing_folder / "swing-up")


@pytest.fixture
def pendulum() -> Callable[..., TrainedAgent]:
    """Makes an untrained Pendulum-v1 agent whose metadata says ten steps on data with returns from -1500 to -100."""

    def make(
        backbone: str = "mingru",
        tbptt_segments: int | None = None,
        cloning: bool = False,
        return_min: float = -1500.0,
        return_max: float = -100.0,
        rtg_quantile: float = 0.0,
        **agent_options: Any,
    ) -> TrainedAgent:
        sections = {
            "backbone": {"name": backbone, "width": 16, "layers": 1},
            "agent": agent_options,
            "condition": {"name": "none"} if cloning else {"name": "return_to_go", "rtg_quantile": rtg_quantile},
            "training": {"steps": 10, "tbptt_segments": tbptt_segments},
        }
        config = from_dict({"dataset": "local/pendulum", **sections}, "test")
        torch.manual_seed(0)
        observations, actions = Box(-np.inf, np.inf, (3,)), Box(-2.0, 2.0, (1,))
        cap = torch.tensor([-150.0]) if rtg_quantile and not cloning else None
        spec = agent_spec(torch.zeros(3), torch.ones(3), actions, return_scale=1000.0, rtg_limit=cap)
        agent = DecisionAgent(config.agent, config.backbone, spec, config.condition)
        data = DatasetSpec(
            name="local/pendulum",
            environment_id="Pendulum-v1",
            reference_min=-1600.0,
            reference_max=-150.0,
            score_meaning="0 is a random policy, 100 an expert",
            comparable="ours",
            target_returns=(-200.0, -400.0),
            return_scale=1000.0,
            return_mean=-900.0,
            return_sd=300.0,
            return_min=return_min,
            return_max=return_max,
            spaces=described_spaces(observations, actions),
            fingerprint="f" * 64,
            notes=("some note",),
        )
        return TrainedAgent(agent.eval(), config, data, 10, 1.25)

    return make


@pytest.fixture
def no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes are watched and filmed without a renderer; a video is the text of its moments."""
    monkeypatch.setattr(video, "SCREENS", os.environ)
    monkeypatch.setattr(video, "watched_environment", lambda name, size=None: make_environment(name))
    monkeypatch.setattr(video, "draw", lambda environment: None)
    monkeypatch.setattr(video, "label", lambda picture, target, moment: picture)
    monkeypatch.setattr(video, "write_video", lambda pictures, rate, path: path.write_text(str(list(pictures))))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, by playwright; tests that ask for it are skipped without either."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with playwright.sync_playwright() as drivers:
        try:
            browser = drivers.chromium.launch(executable_path=found, args=["--no-sandbox"])  # root, in a container
        except playwright.Error as error:
            pytest.skip(f"no browser: {error}")
        yield browser
        browser.close()
