"""Every benchmark runs and has the documented row names; no test asserts a time."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from bench import backbones as backbones_bench
from bench import bench_of, measure
from bench import deploy as deploy_bench
from bench import rollout as rollout_bench
from bench import train as train_bench
from bench.backbones import BASELINE, TORCH, WIDTH, make_layer
from bench.products import products_of
from matplotlib import image
from peer_layers import PEERS, installed_peers, mingru_core, peer_mingru_core
from torch.utils.flop_counter import FlopCounterMode

from decision_rnn.agent import AgentConfig, DecisionAgent, agent_spec
from decision_rnn.backbones import registered, registered_names
from decision_rnn.config import RunConfig
from decision_rnn.data.spec import spec_of_store
from decision_rnn.training.checkpoint import TrainedAgent, save_checkpoint
from decision_rnn.utils.errors import InputError


@pytest.fixture(autouse=True)
def short_timings(monkeypatch):
    monkeypatch.setattr(measure, "TIMING_SECONDS", 0.0)
    threads = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == threads


def run(name, **options):
    """The rows of a benchmark, by name."""
    return checked(bench_of(name)(rounds=1, **options))


def checked(rows):
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.value > 0
        assert row.baseline.value > 0
        assert math.isfinite(row.ratio)
    return {row.name: row for row in rows}


@pytest.fixture
def small_steps(small_store, monkeypatch):
    """`bench train` times small agents."""
    for name, small in {"BATCH": 4, "CONTEXT": 5, "WIDTH": 16, "LAYERS": 1}.items():
        monkeypatch.setattr(train_bench, name, small)


def test_bench_train_rows_cover_every_backbone_and_precision_with_fused_adamw(small_steps, monkeypatch):
    optimizers = []

    class Recorder(torch.optim.AdamW):
        def __init__(self, groups, **options):
            optimizers.append(options)
            super().__init__(groups, **options)

    monkeypatch.setattr(torch.optim, "AdamW", Recorder)
    rows = run("train")
    baseline = "train/decision-transformer/fp32"
    steps = {f"train/{name}/{precision}" for name in registered_names() for precision in ("fp32", "bf16")} | {
        baseline,
        "train/decision-transformer/bf16",
        "train/decision-transformer-no-dropout/fp32",
    }
    assert optimizers == [{"fused": True}] * len(steps)  # for the baseline and for ours
    floors = {step.replace("train/", "products/"): step for step in steps}
    assert rows.keys() == steps | floors.keys()
    assert {row.unit for row in rows.values()} == {"ms"}
    assert {name: row.baseline.name for name, row in rows.items()} == dict.fromkeys(steps, baseline) | floors


def test_bench_train_times_compiled_steps_beside_those_that_are_not(small_steps, monkeypatch):
    compiled = []
    monkeypatch.setattr(DecisionAgent, "compile", lambda agent, fullgraph: compiled.append(fullgraph))
    rows = run("train", backbones="conv, mlp", compiled=True)
    assert {name: row.baseline.name for name, row in rows.items() if name.startswith("compiled/")} == {
        f"compiled/{name}/{precision}": f"train/{name}/{precision}"
        for name in ("conv", "mlp")
        for precision in ("fp32", "bf16")
    }
    assert compiled == [True] * 4
    assert not any("mingru" in name for name in rows)
    with pytest.raises(InputError, match=r"unknown backbone 'mingur'.*mingru"):
        bench_of("train")(backbones="mingur")


def test_products_of_a_training_step_have_its_floating_point_operations():
    """Counted by torch's own counter, for a forward and a backward pass of linear layers and a batched product."""
    first, second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 2, bias=False)
    x = torch.randn(3, 5, 6)

    def work():
        hidden = first(x).relu()
        (second(hidden) * (hidden @ hidden.mT).sum(-1, keepdim=True)).sum().backward()

    with FlopCounterMode(display=False) as all_of_it:
        work()
    replay = products_of(work)
    weight = first.weight.detach().clone()
    with FlopCounterMode(display=False) as alone:
        replay()
    assert alone.get_total_flops() == all_of_it.get_total_flops() > 0
    assert torch.equal(first.weight, weight)


SIZES = ((64, 20), (8, 100))


def test_bench_data_rows_compare_with_copies_of_the_table(small_store, monkeypatch):
    monkeypatch.setattr("bench.data.SIZES", SIZES)
    rows = run("data")
    assert list(rows) == ["data/batch-64x20", "data/copy-64x20", "data/batch-8x100", "data/copy-8x100"]
    assert all(row.baseline.name == name.replace("batch", "copy") for name, row in rows.items())
    assert {row.unit for row in rows.values()} == {"µs"}


def test_bench_scan_rows_for_real_and_complex_numbers(monkeypatch):
    monkeypatch.setattr("bench.scan.SIZES", ((2, 5, 3),))
    rows = run("scan")
    assert list(rows) == [f"scan/{numbers}-2x5x3{copy}" for numbers in ("real", "complex") for copy in ("", "-copy")]
    assert {row.unit for row in rows.values()} == {"µs"}


# Rollouts and exported policies


def untrained():
    torch.manual_seed(0)
    config = registered("mingru").config(width=16, layers=1)
    spec = agent_spec(torch.zeros(11), torch.ones(11), 3, return_scale=1000.0)
    return DecisionAgent(AgentConfig(), config, spec).eval()


def test_time_episodes_replays_the_episodes_of_a_rollout_and_raises_if_they_differ(monkeypatch):
    monkeypatch.setattr("decision_rnn.evaluation.rollout.GROUP", 4)
    arguments = (untrained(), "Hopper-v5", (3600.0, 1800.0), 6, 1)
    rows = checked(rollout_bench.time_episodes(*arguments))  # raises unless every return is the same
    assert list(rows) == ["rollout/episodes-6", "rollout/episodes-6/all-cores"]
    assert all(row.ratio == row.value / row.baseline.value for row in rows.values())
    monkeypatch.setattr(rollout_bench, "replay", lambda *_: np.zeros(6))
    with pytest.raises(RuntimeError, match="not comparable"):
        rollout_bench.time_episodes(*arguments)


@pytest.fixture
def folder(tmp_path, small_store):
    """A run's folder with an untrained agent."""
    config = RunConfig(dataset="hopper-medium", backbone=registered("mingru").config(width=16, layers=1))
    data = spec_of_store("standin/hopper-medium", small_store)
    (tmp_path / "config.yaml").touch()
    save_checkpoint(tmp_path, TrainedAgent(untrained(), config, data, 1, 0.0), {})
    return str(tmp_path)


def test_bench_rollout_rows_for_episodes_and_actions(folder, monkeypatch):
    monkeypatch.setattr(rollout_bench, "EPISODES", 4)
    rows = run("rollout", run=folder)
    episodes = ["rollout/episodes-4", "rollout/episodes-4/all-cores"]
    assert list(rows) == [*episodes, *(f"rollout/{kind}-{n}" for n in (1, 64) for kind in ("act", "window-20/act"))]
    assert {row.unit for row in rows.values()} == {"s", "µs"}


def test_bench_deploy_rows_for_runtime_eager_and_window(folder, monkeypatch):
    monkeypatch.setattr(deploy_bench, "BATCHES", (1, 4))
    monkeypatch.setattr(deploy_bench, "STARTS", 1)
    rows = run("deploy", run=folder)
    assert list(rows) == [
        *(
            f"deploy/{actor}/act-{batch}"
            for batch in (1, 4)
            for actor in ("runtime", "runtime-int8", "eager", "window-20")
        ),
        "deploy/start-up/runtime",
        "deploy/start-up/eager",
    ]
    assert {row.unit for row in rows.values()} == {"µs", "s"}


def test_bench_deploy_without_int8_says_why_and_has_the_other_rows(folder, monkeypatch, capsys):
    monkeypatch.setattr(deploy_bench, "BATCHES", (1,))
    monkeypatch.setattr(deploy_bench, "STARTS", 1)
    monkeypatch.setattr("decision_rnn.deploy.onnx.INT8_TOLERANCE", -1.0)
    rows = run("deploy", run=folder)
    assert [name.split("/")[1] for name in rows] == ["runtime", "eager", "window-20", "start-up", "start-up"]
    assert "deploy/runtime-int8 is left out: the agent's actions in ONNX differ by" in capsys.readouterr().err


# Layers


@pytest.mark.parametrize("name", [*registered_names(), *TORCH, *PEERS])
@torch.no_grad()
def test_bench_layer_step_equals_its_parallel_forward(name):
    if name in PEERS and name not in installed_peers():
        pytest.skip("not installed")
    torch.manual_seed(0)
    layer, x = PEERS[name].make() if name in PEERS else make_layer(name), torch.randn(1, 7, WIDTH)
    state, stepped = layer.initial_state(1), []
    for t in range(7):
        y, state = layer.step(x[:, t], state)
        stepped.append(y)
    torch.testing.assert_close(torch.stack(stepped, dim=1), layer(x)[0], rtol=1e-4, atol=1e-5)


def test_peer_mingru_core_equals_mingru_core():
    pytest.importorskip("minGRU_pytorch")
    gate, candidate = torch.randn(2, 2, 7, WIDTH)
    ours, theirs = (
        mingru_core()(torch.cat([gate, candidate], -1))[0],
        peer_mingru_core()(torch.cat([candidate, gate], -1))[0],
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_bench_backbones_rows_have_names_units_baselines_and_a_plot(tmp_path):
    rows = run("backbones", backbones="mingru, lru", lengths="9,5", steps=12, plot=tmp_path / "picture.png")
    names = ["mingru", "lru", BASELINE]
    expected = [f"backbones/{name}/{kind}" for kind in ("time-5", "time-9", "memory-5", "memory-9") for name in names]
    expected += [f"backbones/{name}/step-{elapsed}" for name in names for elapsed in (1, 10, 12)]
    assert list(rows) == expected
    for name, row in rows.items():
        _, layer, point = name.split("/")
        kind, at = point.split("-")
        assert row.unit == {"time": "ms", "memory": "MB", "step": "µs"}[kind]
        baseline = f"{layer}/step-1" if kind == "step" else f"{BASELINE}/{kind}-{at}"
        assert row.baseline.name == f"backbones/{baseline}"
    # At least the input's gradient is in memory: (8, length, 128) numbers of four bytes.
    assert all(row.value >= 8 * 9 * 128 * 4 / 1e6 for name, row in rows.items() if name.endswith("memory-9"))
    assert image.imread(tmp_path / "picture.png").shape[2] == 4


def test_bench_backbones_leaves_out_lengths_after_one_that_takes_too_much_memory(monkeypatch, capsys):
    monkeypatch.setattr(backbones_bench, "BYTES", 1.0)
    rows = run("backbones", backbones="mingru", lengths="3,5,9", steps=1)
    assert {name for name in rows if "time" in name} == {
        "backbones/mingru/time-3",
        *(f"backbones/{BASELINE}/time-{length}" for length in (3, 5, 9)),  # the baseline is never left out
    }
    error = capsys.readouterr().err
    assert "mingru is left out from length 5 on: at length 3 it takes" in error
    assert error.count("left out") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backbones": "mingru,mingur"}, ["mingur", "did you mean"]),
        ({"lengths": "20,many"}, ["lengths", "20,many"]),
        ({"lengths": "1"}, ["lengths", "above 1"]),
        ({"plot": Path("/dev/null/picture.png")}, ["cannot write /dev/null/picture.png"]),
    ],
)
def test_bench_backbones_invalid_options_raise_before_any_measurement(monkeypatch, options, words):
    monkeypatch.setattr(backbones_bench, "measure_layers", lambda *_: pytest.fail("measured"))
    with pytest.raises(InputError) as error:
        run("backbones", **{"backbones": "mingru", **options})
    for word in words:
        assert word in str(error.value)
