"""The backbone benchmark: layers compute the same function in parallel and by step; rows, limits and errors."""

import math

import pytest
import torch
from matplotlib import image

from decision_rnn.backbones import registered_names
from decision_rnn.bench import backbones as bench
from decision_rnn.bench import bench_backbones, layers
from decision_rnn.bench.backbones import BASELINE, BYTES, SECONDS, too_much
from decision_rnn.bench.layers import PEERS, installed_peers, make_layer, mingru_core, peer_mingru_core
from decision_rnn.errors import InputError

BATCH, TIME, WIDTH = 2, 7, 16


def by_name(rows):
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.value > 0
        assert row.ratio == pytest.approx(row.baseline.value / row.value)
    return {row.name: row for row in rows}


@pytest.mark.parametrize("name", [*registered_names(), *PEERS])
@torch.no_grad()
def test_bench_layer_step_equals_its_parallel_forward(name):
    if name in PEERS and name not in installed_peers():
        pytest.skip("not installed")
    torch.manual_seed(0)
    layer, x = make_layer(name, WIDTH), torch.randn(1, TIME, WIDTH)
    state, stepped = layer.initial_state(), []
    for t in range(TIME):
        y, state = layer.step(x[:, t], state)
        stepped.append(y)
    torch.testing.assert_close(torch.stack(stepped, dim=1), layer.forward(x), rtol=1e-4, atol=1e-5)


def test_mingru_core_equals_the_equations_step_by_step():
    """Against the equations, evaluated one step at a time."""
    torch.manual_seed(0)
    preactivations = torch.randn(BATCH, TIME, 2 * WIDTH)
    actual = mingru_core(WIDTH)(preactivations)
    h = torch.zeros(BATCH, WIDTH)
    for t in range(TIME):
        gate, candidate = preactivations[:, t].chunk(2, dim=-1)
        z = 1 / (1 + torch.exp(-gate))
        g = torch.where(candidate >= 0, candidate + 0.5, 1 / (1 + torch.exp(-candidate)))
        h = (1 - z) * h + z * g
        torch.testing.assert_close(actual[:, t], h)


def test_peer_mingru_core_equals_mingru_core():
    pytest.importorskip("minGRU_pytorch")
    torch.manual_seed(0)
    gate, candidate = torch.randn(2, BATCH, TIME, WIDTH)
    theirs = peer_mingru_core(WIDTH)(torch.cat([candidate, gate], dim=-1))
    torch.testing.assert_close(mingru_core(WIDTH)(torch.cat([gate, candidate], dim=-1)), theirs, rtol=1e-4, atol=1e-5)


def test_bench_backbones_rows_have_names_units_baselines_and_a_plot(tmp_path):
    threads = torch.get_num_threads()
    rows = by_name(bench_backbones("mingru, lru", lengths="9,5", steps=12, rounds=1, plot=tmp_path / "picture.png"))
    names = ["mingru", "lru", BASELINE]
    expected = [f"backbones/{name}/{kind}" for kind in ("time-5", "time-9", "memory-5", "memory-9") for name in names]
    expected += [f"backbones/{name}/step-{elapsed}" for name in names for elapsed in (1, 10, 12)]
    expected += [f"backbones/{name}/episodes-{kind}" for name in ("mingru", "lru") for kind in ("endless", 22)]
    assert list(rows) == expected
    for name, row in rows.items():
        _, layer, point = name.split("/")
        kind, at = point.split("-")
        assert row.unit == {"time": "ms", "memory": "MB", "step": "µs", "episodes": "ms"}[kind]
        own = {"step": f"{layer}/step-1", "episodes": f"{layer}/episodes-endless"}
        baseline = own.get(kind, f"{BASELINE}/{kind}-{at}")
        assert row.baseline.name == f"backbones/{baseline}"
    # At least the input's gradient is in memory: (8, length, 128) numbers of four bytes.
    assert all(row.value >= 8 * 9 * 128 * 4 / 1e6 for name, row in rows.items() if name.endswith("memory-9"))
    assert torch.get_num_threads() == threads
    assert image.imread(tmp_path / "picture.png").shape[2] == 4


def test_bench_backbones_measures_every_backbone_and_installed_peer(monkeypatch):
    monkeypatch.setattr(bench, "CORE_SIZES", ((2, 5),))
    monkeypatch.setattr(bench, "TIMING_SECONDS", 0.0)
    monkeypatch.setattr(bench, "STEP_CALLS", 1)
    rows = by_name(bench_backbones(lengths="5", steps=1, rounds=1))
    names = {*registered_names(), *installed_peers()}
    assert {name.split("/")[1] for name in rows if name.endswith("time-5")} == names
    assert {name.split("/")[1] for name in rows if name.endswith("step-1")} == names
    cores = [row for name, row in rows.items() if name.endswith("core-2x5")]
    assert len(cores) == (2 if "minGRU_pytorch.minGRU" in names else 0)
    assert {row.baseline.name for row in cores} <= {"backbones/minGRU_pytorch.minGRU/core-2x5"}


def test_measure_resets_compares_episodes_of_22_steps_with_no_resets(monkeypatch):
    """One reset per 22 steps, at all positions of 64 rows of 20; only layers that support resets are measured."""
    seen = {}
    monkeypatch.setattr(bench, "TIMING_SECONDS", 0.0)
    layer = make_layer("mingru", bench.WIDTH)
    forward = layer.module.forward
    layer.module.forward = lambda x, state, reset: seen.update({len(reset): reset.mask}) or forward(x, state, reset)
    rows = by_name(bench.measure_resets({"mingru": layer, BASELINE: make_layer(BASELINE, bench.WIDTH)}, 1, "cpu"))
    assert list(rows) == ["backbones/mingru/episodes-endless", "backbones/mingru/episodes-22"]
    none, some = seen.values()
    assert none.shape == some.shape == (64, 20)
    assert not none.any()
    assert some.any(0).all()
    assert some.sum(1).max() == 1
    assert some.float().mean().item() == pytest.approx(1 / 22, rel=0.05)


def test_bench_backbones_leaves_out_lengths_that_would_take_too_much_memory(monkeypatch, capsys):
    monkeypatch.setattr(bench, "BYTES", 1.0)
    rows = by_name(bench_backbones("mingru", lengths="3,5,9", steps=1, rounds=1))
    assert {name for name in rows if "time" in name} == {
        "backbones/mingru/time-3",  # the shortest cannot be extrapolated
        *(f"backbones/{BASELINE}/time-{length}" for length in (3, 5, 9)),  # the baseline is never left out
    }
    error = capsys.readouterr().err
    assert "mingru is left out from length 5 on: it would take about" in error
    assert error.count("left out") == 1


def test_too_much_extrapolates_seconds_and_bytes_to_longer_lengths():
    assert too_much([], 4096) is None
    one = [(100, SECONDS / 10, 0.0)]
    assert too_much(one, 999) is None
    assert too_much(one, 1001) is not None
    quadratic = [(50, SECONDS / 40, 0.0), (100, SECONDS / 10, 0.0)]
    assert too_much(quadratic, 300) is None
    assert "seconds" in too_much(quadratic, 330)
    flat = [(50, 1e-3, BYTES / 10), (100, 1e-3, BYTES / 10)]  # growth is taken to be at least linear
    assert too_much(flat, 999) is None
    assert "GiB" in too_much(flat, 1001)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backbones": "mingru,mingur"}, ["mingur", "did you mean"]),
        ({"lengths": "20,many"}, ["lengths", "20,many"]),
        ({"lengths": "1"}, ["lengths", "above 1"]),
        ({"lengths": ""}, ["lengths"]),
        ({"steps": 0}, ["steps", "0"]),
        ({"rounds": 0}, ["rounds", "0"]),
    ],
)
def test_bench_backbones_invalid_options_raise_and_are_named(options, words):
    with pytest.raises(InputError) as error:
        bench_backbones(**{"backbones": "mingru", **options})
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("place", ["absent/picture.png", "folder"])
def test_bench_backbones_plot_path_that_cannot_be_written_raises_before_any_measurement(tmp_path, monkeypatch, place):
    (tmp_path / "folder").mkdir()
    for step in ("make_layer", "timed", "interleaved", "peak_memory"):
        monkeypatch.setattr(bench, step, lambda *_, step=step, **__: pytest.fail(f"{step} was called"))
    with pytest.raises(InputError, match=f"cannot write {tmp_path / place}: "):
        bench_backbones("mingru", lengths="5", steps=1, rounds=1, plot=tmp_path / place)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_make_layer_of_a_missing_peer_names_the_pip_install_command(monkeypatch):
    monkeypatch.setattr(layers, "find_spec", lambda package: None)
    with pytest.raises(InputError, match=r"mambapy\.MambaBlock is not installed: `pip install mambapy`"):
        make_layer("mambapy.MambaBlock", WIDTH)
    assert installed_peers() == []


def test_bench_backbones_plots_a_single_length(tmp_path):
    bench_backbones("mingru", lengths="5", steps=1, rounds=1, plot=tmp_path / "picture.png")
    assert math.prod(image.imread(tmp_path / "picture.png").shape) > 0
