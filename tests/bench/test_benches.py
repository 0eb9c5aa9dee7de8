"""Every benchmark runs and has the documented row names; no test asserts a time."""

import math
import time
import venv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from decision_rnn.agent import AgentConfig, DecisionAgent, box_spec
from decision_rnn.backbones import registered, registered_names
from decision_rnn.bench import BENCHES, bench_data, bench_rollout, bench_scan, bench_train, format_rows
from decision_rnn.bench import deploy as deploy_bench
from decision_rnn.bench import rollout as rollout_bench
from decision_rnn.bench import train as train_bench
from decision_rnn.bench.data import PaddedSampler
from decision_rnn.bench.rollout import Recording, time_acting, time_episodes
from decision_rnn.checkpoint import TrainedAgent, save_checkpoint
from decision_rnn.config import RunConfig
from decision_rnn.data.spec import TASKS
from decision_rnn.data.summary import DataSummary
from decision_rnn.errors import InputError
from decision_rnn.evaluation.rollout import rollout


def check(rows):
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.value > 0
        assert row.baseline.value > 0
        assert math.isfinite(row.ratio)
    assert len(format_rows(rows).splitlines()) == len(rows) + 1


def untrained(name="mingru"):
    torch.manual_seed(0)
    mean, std = torch.zeros(11), torch.ones(11)
    config = registered(name).config(name=name, width=16, layers=1)
    return DecisionAgent(AgentConfig(), config, box_spec(mean, std, 3, return_scale=1000.0)).eval()


def test_benches_registry_names():
    assert list(BENCHES) == ["train", "rollout", "data", "scan", "backbones", "deploy"]


def test_bench_train_rows_cover_every_backbone_and_precision_with_fused_adamw(small_store, monkeypatch):
    threads, optimizers = torch.get_num_threads(), []

    class Recorder(torch.optim.AdamW):
        def __init__(self, groups, **options):
            optimizers.append(options)
            super().__init__(groups, **options)

    monkeypatch.setattr(torch.optim, "AdamW", Recorder)
    for name, small in {"BATCH": 4, "CONTEXT": 5, "WIDTH": 16, "LAYERS": 1}.items():
        monkeypatch.setattr(train_bench, name, small)
    rows = bench_train(rounds=1)
    assert len(optimizers) == len(rows)
    assert all(options == {"fused": True} for options in optimizers)  # for the baseline and for ours
    check(rows)
    baseline = "train/decision-transformer/fp32"
    expected = {f"train/{name}/{precision}" for name in registered_names() for precision in ("fp32", "bf16")}
    expected |= {baseline, "train/decision-transformer/bf16", "train/decision-transformer-no-dropout/fp32"}
    assert {row.name for row in rows} == expected
    assert {(row.unit, row.baseline.name) for row in rows} == {("ms", baseline)}
    assert [row.ratio for row in rows if row.name == baseline] == [1.0]
    assert torch.get_num_threads() == threads


def test_bench_data_rows_compare_with_padded_batches(small_store, monkeypatch):
    monkeypatch.setattr("decision_rnn.bench.data.SIZES", ((64, 20), (8, 100)))
    rows = bench_data(rounds=1)
    check(rows)
    names = ["data/batch-64x20", "data/padded-64x20", "data/batch-8x100", "data/padded-8x100"]
    assert [row.name for row in rows] == names
    assert [row.baseline.name for row in rows] == [names[1], names[1], names[3], names[3]]
    assert {row.unit for row in rows} == {"µs"}


STUB = """
class Buffer:
    def __init__(self, observations, actions, rewards, terminals, timeouts, action_space):
        assert observations.shape[1:] == (11,) and actions.shape[1:] == (3,) and rewards.ndim == 1
        self.episodes = [None] * int((terminals + timeouts).sum())
    def sample_trajectory_batch(self, batch_size, length):
        print("what d3rlpy prints is no answer")
        sum(range(1000))
class dataset:
    MDPDataset = Buffer
class ActionSpace:
    CONTINUOUS = 1
"""


@pytest.fixture
def other_python(tmp_path):
    """The interpreter of a virtual environment with only NumPy and a stub of d3rlpy."""
    venv.create(tmp_path / "venv", symlinks=True)
    packages = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    (packages / "numpy.pth").write_text(str(Path(np.__file__).parents[1]))
    (packages / "d3rlpy.py").write_text(STUB)
    return tmp_path / "venv" / "bin" / "python"


def test_bench_data_with_d3rlpy_uses_it_as_the_baseline(small_store, other_python, monkeypatch):
    monkeypatch.setattr("decision_rnn.bench.data.SIZES", ((64, 20), (8, 100)))
    rows = bench_data(rounds=1, d3rlpy=other_python)
    check(rows)
    names = [f"data/{kind}-{size}" for size in ("64x20", "8x100") for kind in ("batch", "padded", "d3rlpy")]
    assert [row.name for row in rows] == names
    assert [row.baseline.name for row in rows] == [names[2]] * 3 + [names[5]] * 3


def test_bench_data_with_a_python_without_d3rlpy_raises(small_store, other_python, tmp_path):
    next(tmp_path.glob("venv/lib/python*/site-packages/d3rlpy.py")).unlink()
    with pytest.raises(InputError, match=r"cannot run d3rlpy \(No module named 'd3rlpy'\).*pip install d3rlpy"):
        bench_data(rounds=1, d3rlpy=other_python)
    with pytest.raises(InputError, match=r"cannot run d3rlpy \(it gave no answer\)"):
        bench_data(rounds=1, d3rlpy=Path("/bin/true"))
    with pytest.raises(InputError, match=r"cannot run /nowhere/python \(No such file"):
        bench_data(rounds=1, d3rlpy=Path("/nowhere/python"))


def test_bench_scan_rows_for_real_and_complex_numbers(monkeypatch):
    monkeypatch.setattr("decision_rnn.bench.scan.SIZES", ((2, 5, 3),))
    rows = bench_scan(rounds=1)
    check(rows)
    assert [row.name for row in rows] == [
        f"scan/{numbers}-2x5x3{copy}" for numbers in ("real", "complex") for copy in ("", "-copy")
    ]
    assert {row.unit for row in rows} == {"µs"}


def test_padded_sampler_batches_hold_the_episodes_of_the_store(store):
    sampler = PaddedSampler(store, context=20, batch_size=16)
    observation, action, reward, return_to_go, timestep, mask = sampler.sample()
    assert observation.shape == (16, 20, 11)
    assert action.shape == (16, 20, 3)
    assert (action[mask == 0] == -10).all()
    table = {tuple(np.round(row, 4)): i for i, row in enumerate(store.actions)}
    for b in range(16):
        length = int(mask[b].sum())
        assert mask[b, -length:].all()
        at = [table[tuple(np.round(row, 4))] for row in action[b, -length:].numpy()]
        assert at == list(range(at[0], at[0] + length))
        column = store.columns["return_to_go"]
        expected = torch.from_numpy(store.table[at][:, column])
        torch.testing.assert_close(return_to_go[b, -length:] * 1000, expected, rtol=1e-4, atol=1e-3)
        assert timestep[b, -length:].tolist() == store.table[at, store.columns["timestep"].start].tolist()
        torch.testing.assert_close(reward[b, -length:, 0], torch.from_numpy(store.rewards[at]))


def test_recording_replay_gives_the_same_episodes_as_rollout(monkeypatch):
    monkeypatch.setattr("decision_rnn.evaluation.rollout.GROUP", 4)
    agent = untrained()
    recording = Recording(agent, "Hopper-v5", (3600.0, 1800.0), episodes=3, seed=7)
    results = rollout(agent, "Hopper-v5", (3600.0, 1800.0), 3, 7)
    assert recording.returns.tolist() == [value for result in results for value in result.returns]
    assert sum(len(actions) for steps in recording.recorder.groups for actions in steps) == recording.lengths.sum()
    assert recording.time_environments(time.process_time) > 0  # raises unless every return is the same
    assert recording.time_rollout(time.process_time, processes=1) > 0
    rows = time_episodes(recording, rounds=1)
    assert [row.name for row in rows] == ["rollout/episodes-6", "rollout/episodes-6/all-cores"]
    assert [row.ratio for row in rows] == [row.value / row.baseline.value for row in rows]


def test_recording_replay_with_other_returns_raises():
    recording = Recording(untrained(), "Hopper-v5", (3600.0,), episodes=2, seed=7)
    recording.recorder.groups[0][0][:] = 1.0
    with pytest.raises(RuntimeError, match="not comparable"):
        recording.time_environments(time.process_time)


@pytest.fixture
def few_calls(monkeypatch):
    monkeypatch.setattr(rollout_bench, "ACTING_CALLS", 5)


@pytest.mark.parametrize("name", registered_names())
def test_time_acting_rows_for_one_and_64_environments(name, few_calls):
    rows = time_acting(untrained(name), rounds=1)
    check(rows)
    names = ["rollout/act-1", "rollout/window-20/act-1", "rollout/act-64", "rollout/window-20/act-64"]
    assert [row.name for row in rows] == names
    assert {row.unit for row in rows} == {"µs"}


@pytest.fixture
def few_episodes(monkeypatch, few_calls):
    monkeypatch.setattr(rollout_bench, "EPISODES", 4)
    monkeypatch.setattr(rollout_bench, "ACTING_ROUNDS", 1)


def test_bench_rollout_of_a_run_folder(tmp_path, few_episodes):
    config = RunConfig(dataset="hopper-medium", backbone=registered("lru").config(name="lru", width=16, layers=1))
    returns = {"return_mean": 1400.0, "return_sd": 380.0, "return_min": 300.0, "return_max": 3200.0}
    spec = TASKS["hopper"].spec("standin/hopper-medium", "Hopper-v5", "")
    provenance = DataSummary.from_spec(spec, fingerprint="0" * 64, **returns)
    (tmp_path / "config.yaml").touch()
    save_checkpoint(tmp_path, TrainedAgent(untrained("lru"), config, provenance, 1, 0.0), {})
    rows = bench_rollout(rounds=1, run=tmp_path)
    check(rows)
    assert [row.name for row in rows][:2] == ["rollout/episodes-4", "rollout/episodes-4/all-cores"]


def test_bench_rollout_without_a_run_trains_one(small_store, few_episodes, monkeypatch):
    monkeypatch.setattr(rollout_bench, "TRAINING_STEPS", 2)
    check(bench_rollout(rounds=1))


def test_bench_rollout_of_a_folder_without_a_run_raises(tmp_path):
    with pytest.raises(InputError, match="is not a run folder"):
        bench_rollout(run=tmp_path)


def test_bench_deploy_rows_for_runtime_eager_and_window(monkeypatch):
    monkeypatch.setattr(deploy_bench, "BATCHES", (1, 4))
    monkeypatch.setattr(deploy_bench, "CALLS", {1: 2, 4: 1})
    monkeypatch.setattr(deploy_bench, "STARTS", 1)
    small = registered("mingru").config(width=8, layers=1)
    monkeypatch.setattr(deploy_bench, "registered", lambda name: SimpleNamespace(config=lambda **_: small))
    rows = BENCHES["deploy"](rounds=1)
    check(rows)
    assert [row.name for row in rows] == [
        *(f"deploy/{actor}/act-{batch}" for batch in (1, 4) for actor in ("runtime", "eager", "window-20")),
        "deploy/start-up/runtime",
        "deploy/start-up/eager",
    ]
    assert {row.unit for row in rows} == {"µs", "s"}
