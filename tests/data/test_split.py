"""Episodes of a dataset: split by whole episodes, selected, read back as arrays, overwritten; or in memory."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_files import assert_equal, forked, hopper_episodes, publish, random_episode

from decision_rnn import Dataset, Episode, InputError, import_log, open_dataset, split_dataset, train, write_store
from decision_rnn.cli.main import main
from decision_rnn.data.dataset import as_dataset
from decision_rnn.data.sources import SOURCES
from decision_rnn.data.sources.local import remove_dataset
from decision_rnn.data.stream import StepStream
from decision_rnn.utils.parsing import options_of

pytestmark = pytest.mark.usefixtures("folders")
NAMES = {"observations": ["x", "v", "w", "t"], "actions": ["left", "right"]}
SMALL: dict[str, Any] = {
    "backbone": {"name": "mingru", "width": 8, "layers": 1},
    "steps": 2,
    "progress": False,
    "training": {"context": 5, "batch_size": 2},
}


def noise(count: int, sizes: tuple[int, int] = (4, 2)) -> list[Episode]:
    generator = np.random.default_rng(0)
    return [random_episode(generator, (5 + index, index % 2 == 0, index % 3 == 0), sizes) for index in range(count)]


def firsts(episodes: Any) -> list[float]:
    """A number that identifies each episode."""
    return [float(episode.observations[0, 0]) for episode in episodes]


@pytest.mark.parametrize(
    ("count", "share", "size"), [(2, 0.1, 1), (2, 0.9, 1), (20, 0.1, 2), (20, 0.26, 5), (3, 0.99, 2)]
)
def test_split_parts_are_disjoint_and_complete(count: int, share: float, size: int) -> None:
    episodes = noise(count)
    store = write_store("local/log", episodes, columns=NAMES, notes=["recorded by hand"])
    parts = split_dataset("local/log", share)
    assert [part.name for part in parts] == ["local/log-train", "local/log-held-out"]
    assert [len(part) for part in parts] == [count - size, size]
    indices = [part.store.source["split"]["episodes"] for part in parts]
    assert sorted(indices[0] + indices[1]) == list(range(count))
    for part, chosen in zip(parts, indices, strict=True):
        assert_equal(part, [episodes[index] for index in chosen])
        assert part.store.entry_names("actions") == NAMES["actions"]
        split = {"dataset": "local/log", "fingerprint": store.fingerprint, "hold_out": share, "seed": 0}
        assert part.store.source["split"] == split | {"episodes": chosen}
        assert any("local/log" in note and f"{share:g}" in note for note in part.spec.notes)
        assert "recorded by hand" in part.spec.notes
    assert open_dataset("local/log").store.fingerprint == store.fingerprint


def test_split_is_that_of_its_seed() -> None:
    write_store("local/log", noise(30))
    held_out = []
    for seed in (0, 1, 0):
        words = ["data", "split", "local/log", "--hold_out", "0.2", "--seed", str(seed), "--overwrite"]
        assert main(words) == 0
        held_out.append(firsts(open_dataset("local/log-held-out")))
    assert held_out[0] == held_out[2] != held_out[1]
    assert firsts(split_dataset("local/log", 0.2, overwrite=True)[1]) == held_out[0]


def test_split_of_too_few_episodes_or_a_taken_name_raises(capsys: pytest.CaptureFixture[str]) -> None:
    write_store("local/one", noise(1))
    write_store("local/log", noise(4))
    assert main(["data", "split", "local/one"]) == 2
    assert "local/one" in capsys.readouterr().err
    for share in (0, 1, -0.1, 1.5):
        with pytest.raises(InputError, match="hold"):
            split_dataset("local/log", share)
    write_store("local/log-held-out", noise(1))
    with pytest.raises(InputError, match="local/log-held-out"):
        split_dataset("local/log")
    with pytest.raises(InputError, match="local/log-train"):  # nothing is written
        open_dataset("local/log-train")


def test_parts_of_a_minari_dataset_keep_scores_and_environment() -> None:
    publish("toy/hopper-v0", hopper_episodes(), ref_min_score=-5.0, ref_max_score=40.0)
    whole = open_dataset("minari/toy/hopper-v0")
    for part in split_dataset(whole, 0.3):
        assert part.name.startswith("local/toy-hopper-v0-")
        assert (part.spec.reference_min, part.spec.reference_max) == (-5.0, 40.0)
        assert part.spec.environment_settings == whole.spec.environment_settings
        assert part.spec.action_space == whole.spec.action_space
        assert "minari/toy/hopper-v0" in part.spec.comparable


def test_parts_keep_the_references_of_their_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that a source states itself, which are not in the store."""
    publish("toy/hopper-v0", hopper_episodes())
    whole = open_dataset("minari/toy/hopper-v0")
    source = type("Stated", (), {"spec": lambda _, name, store: replace(whole.spec, name=name, target_returns=(7.0,))})
    monkeypatch.setitem(SOURCES, "minari", source())
    for part in (*split_dataset(whole), as_dataset(whole.select([0, 2]))):
        assert part.spec.target_returns == (7.0,)


def test_dataset_is_a_sequence_of_its_episodes() -> None:
    episodes = noise(6)
    write_store("local/log", episodes, columns=NAMES)
    dataset = open_dataset("local/log")
    assert len(dataset) == 6
    assert_equal(dataset, episodes)
    assert_equal([dataset[3], dataset[-1]], [episodes[3], episodes[5]])
    with pytest.raises(IndexError):
        dataset[6]
    lengths = dataset.store.episode_lengths
    for choice, indices in ((lengths > 7, [3, 4, 5]), ([4, 1], [4, 1]), (slice(2), [0, 1])):
        part = dataset.select(choice)
        assert_equal(part, [episodes[index] for index in indices])
        returns = [episodes[index].rewards.sum() for index in indices]
        assert (part.spec.return_min, part.spec.return_max) == pytest.approx((min(returns), max(returns)))
    with pytest.raises(InputError, match="local"):
        dataset.select(lengths > 100)


def test_agent_is_trained_on_a_selection_and_resumed(tmp_path: Path) -> None:
    write_store("local/log", noise(6), columns=NAMES)
    part = open_dataset("local/log").select([0, 5])
    held_out = open_dataset("local/log").select([2, 3])
    run = train(part, output=tmp_path / "run", validation=held_out, **SMALL)
    assert_equal(open_dataset(str(run.config.validation)), noise(6)[2:4])
    assert run.evaluate(validation=held_out).held_out.steps == (7, 8)
    dataset = open_dataset(run.config.dataset)
    assert_equal(dataset, part)
    assert dataset.store.entry_names("observations") == NAMES["observations"]
    assert train(output=run.folder, resume=True, progress=False).agent.step == 2


@pytest.mark.parametrize("form", ["episodes", "dictionaries", "lists", "one more observation"])
def test_episodes_in_memory_need_no_environment(form: str) -> None:
    episodes = noise(3)
    data: list[Any] = episodes
    if form != "episodes":
        last = None if form == "one more observation" else -1
        arrays = [{"observations": e.observations[:last], "actions": e.actions, "rewards": e.rewards} for e in episodes]
        lists = [{key: values.tolist() for key, values in each.items()} for each in arrays]
        data = lists if form == "lists" else arrays
    dataset = as_dataset(data)
    for episode, expected in zip(dataset, episodes, strict=True):
        steps = len(expected.actions)
        np.testing.assert_array_equal(episode.observations[:steps], expected.observations[:steps])
        np.testing.assert_array_equal(episode.actions, expected.actions)
        np.testing.assert_array_equal(episode.rewards, expected.rewards)


def log(scale: float) -> dict[str, list[float]]:
    return {"x": [0.0, 1.0, 2.0], "u": [scale, 2 * scale, 3 * scale], "gain": [1.0, 2.0, 3.0 * scale]}


def imported(scale: float, **options: Any) -> Dataset:
    return import_log(log(scale), "local/log", "x", "u", "gain", progress=False, **options)


def test_overwrite_replaces_a_dataset_and_keeps_open_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = imported(1)
    with pytest.raises(InputError, match="local/log exists"):
        imported(2)
    after = imported(2, overwrite=True)
    assert after.store.actions.ravel().tolist() == [2, 4, 6]
    assert before[0].rewards.tolist() == [1, 2, 3]
    assert before.store.returns_to_go().tolist() == [6, 5, 3]
    assert StepStream(before.store, 3, 1, 0).sample().action.ravel().tolist() == [1, 2, 3]
    monkeypatch.setattr("decision_rnn.data.stream.MAPPED_BYTES", 1)
    with pytest.raises(InputError, match="local/log"):
        StepStream(before.store, 3, 1, 0).sample()
    assert StepStream(after.store, 3, 1, 0).sample().action.ravel().tolist() == [2, 4, 6]
    (tmp_path / "log.csv").write_text("x,u,gain\n0,5,1\n1,6,1\n")
    words = ["data", "import", str(tmp_path / "log.csv"), "--name", "local/log", "--observations", "x"]
    words += ["--actions", "u"]
    assert main(words) == 2
    assert main([*words, "--overwrite"]) == 0
    assert open_dataset("local/log").store.actions.ravel().tolist() == [5, 6]
    reversed_episodes = (replace(e, actions=e.actions[::-1]) for e in open_dataset("local/log"))  # read meanwhile
    assert write_store("local/log", reversed_episodes, overwrite=True).actions.ravel().tolist() == [6, 5]
    assert write_store("local/new", noise(1), overwrite=True).num_episodes == 1  # there was none
    last = open_dataset("local/log").store
    remove_dataset("local/log")
    with pytest.raises(InputError, match="local/log"):
        StepStream(last, 2, 1, 0).sample()


def overwrite_and_die() -> None:
    """Write two episodes, and be killed before the third."""
    third = (os.kill(os.getpid(), signal.SIGKILL) for _ in range(1))
    write_store("local/log", chain(noise(2), third), overwrite=True)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
def test_failed_overwrite_keeps_the_old_data(tmp_path: Path) -> None:
    before = imported(1).store

    def broken() -> Iterator[Episode]:
        yield from noise(2)
        raise TimeoutError

    with pytest.raises(TimeoutError):
        write_store("local/log", broken(), overwrite=True)
    bad = log(2) | {"gain": [0.0, 1.0, float("nan")]}
    with pytest.raises(InputError, match="gain"):
        import_log([log(3), bad], "local/log", "x", "u", "gain", progress=False, overwrite=True)
    (tmp_path / "log.csv").write_text("x,u\n0,5\n1,six\n")
    assert main(["data", "import", str(tmp_path / "log.csv"), "--name", "local/log", "--overwrite"]) == 2
    process = forked(overwrite_and_die)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    after = open_dataset("local/log").store
    assert (after.fingerprint, after[0].rewards.tolist()) == (before.fingerprint, [1, 2, 3])


def test_help_on_an_option_ends_with_it() -> None:
    assert options_of(split_dataset)["overwrite"].help == "If the new datasets exist, replace them."


def test_episodes_in_another_order_have_their_own_arrays() -> None:
    store = write_store("local/log", noise(4))
    order = np.argsort(-store.episode_lengths)
    part = store.select(order)
    assert_equal(part, [store[index] for index in order])
    assert np.array_equal(part.actions, np.concatenate([store[index].actions for index in order]))
