"""Reading and writing results, old formats too; each step, dataset, protocol and configuration has its own file."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from decision_rnn.agent import AgentConfig
from decision_rnn.checkpoint import TrainedAgent
from decision_rnn.config import EvaluationConfig
from decision_rnn.errors import InputError
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.results import Protocol, Result, find_result, read_result, write_result

Make = Callable[..., TrainedAgent]


@pytest.fixture
def result(pendulum: Make) -> Result:
    return evaluate(pendulum(), EvaluationConfig(episodes=1, target_returns=(-300.0,)))


def old_form() -> dict[str, Any]:
    """The content of a result file of version 0.2, whose dataset has no target returns but a mean score."""
    config = {
        "dataset": "hopper-medium",
        "backbone": {"name": "mingru", "width": 128, "layers": 3, "mlp_ratio": 4.0, "dropout": 0.0},
        "training": {"steps": 10_000, "learning_rate": 1e-3},
        "evaluation": {"episodes": 2, "target_returns": None, "state": "recurrent", "window": 20, "seed": 7},
    }
    target = {"in_range": False, "return_mean": 15.0, "return_sd": 5.0, "score_mean": 1.1, "score_sd": 0.2,
              "length_mean": 20.0, "returns": [10, 20.0]}  # fmt: skip
    return {
        "schema": 2,
        "config": config,
        "dataset": {
            "name": "standin/hopper-medium",
            "fingerprint": "ab" * 32,
            "environment_id": "Hopper-v5",
            "return_mean": 1400.0,
            "return_sd": 400.0,
            "return_min": 310.0,
            "return_max": 3100,
            "score_mean": 43.7,
            "reference_min": -20.272305,
            "reference_max": 3234.3,
            "comparable": "with scores on it",
            "notes": ["collected here"],
        },
        "step": 10_000,
        "protocol": {
            "state": "recurrent",
            "window": None,
            "episodes": 2,
            "target_returns": [3600.0, 1800.0],
            "seed": 7,
        },
        "targets": [{"target_return": asked, **target} for asked in (3600.0, 1800.0)],
        "remarks": ["some remark"],
        "training_seconds": 12.5,
        "parameters": 1234,
        "backbone_parameters": 1200,
        "environment_steps": 80,
        "evaluation_seconds": 0.25,
        "commit": None,
        "versions": {"torch": "2.13.0"},
        "hardware": {"cpu": "some"},
    }


def test_read_result_returns_what_write_result_wrote(result: Result, tmp_path: Path) -> None:
    path = write_result(tmp_path, result)
    assert read_result(path) == result
    assert json.loads(path.read_text())["schema"] == 3


def test_result_of_version_0_2_is_read(tmp_path: Path) -> None:
    result = Result.from_dict(old_form(), "result.json")
    assert (result.step, result.dataset.name, result.dataset.return_max) == (10_000, "standin/hopper-medium", 3100.0)
    assert result.dataset.score_mean == pytest.approx(100 * (1400 + 20.272305) / (3234.3 + 20.272305))
    assert result.dataset.notes == ("collected here",)
    assert (result.protocol.window, result.protocol.target_returns) == (None, (3600.0, 1800.0))
    assert result.targets[1].returns == (10.0, 20.0)
    assert Result.from_dict(result.to_dict(), "again") == result
    (tmp_path / "results").mkdir()
    name = "step-10000-carry-2-episodes-0123abcd.json"  # its hash is not that of this version's configuration
    (tmp_path / "results" / name).write_text(json.dumps(old_form()))
    assert find_result(tmp_path, result.key) == result
    assert find_result(tmp_path, replace(result.key, step=1)) is None


def spoilt(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    data = copy.deepcopy(old_form())
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "damaged"),
        (b'{"schema": 2', "damaged"),
        (b"\xff\xfe", "damaged"),
        (b"[]", "damaged"),
        (b"{}", "damaged"),
        (spoilt(("targets",), None), "damaged"),
        (spoilt(("targets",), [3]), "damaged"),
        (spoilt(("protocol", "state"), None), "damaged"),
        (spoilt(("dataset", "fingerprint"), None), "damaged"),
        (spoilt(("dataset", "return_mean"), "1"), "damaged"),
        (spoilt(("schema",), None), "damaged"),
        (spoilt(("schema",), 99), "newer"),
        (spoilt(("config", "backbone", "name"), "nothing"), "nothing"),
    ],
)
def test_damaged_result_file_raises_in_read_result_and_is_skipped_by_find_result(
    content: Any, words: str, result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(InputError, match=words) as caught:
        read_result(path)
    assert str(path) in str(caught.value)
    write_result(tmp_path, result)
    path.rename(tmp_path / "results" / "a.json")
    assert find_result(tmp_path, result.key) == result
    assert find_result(tmp_path, replace(result.key, step=3)) is None
    assert "a.json" in capsys.readouterr().err


def test_find_result_accepts_files_without_newer_configuration_keys(result: Result, tmp_path: Path) -> None:
    """Without `top_fraction`, all episodes were trained on."""
    path = write_result(tmp_path, result)
    data = json.loads(path.read_text())
    del data["config"]["top_fraction"]
    path.write_text(json.dumps(data))
    assert find_result(tmp_path, result.key) == result
    assert find_result(tmp_path, replace(result.key, config=replace(result.key.config, top_fraction=0.1))) is None


def test_results_with_different_keys_have_different_files(result: Result, tmp_path: Path) -> None:
    protocol, config = result.protocol, result.config
    others = [
        replace(result, step=2),
        replace(result, dataset=replace(result.dataset, fingerprint="0" * 64)),
        replace(result, protocol=replace(protocol, episodes=2)),
        replace(result, protocol=replace(protocol, seed=3)),
        replace(result, protocol=replace(protocol, target_returns=(-301.0,))),
        replace(result, protocol=replace(protocol, state="window", window=20)),
        replace(result, protocol=replace(protocol, state="window", window=5)),
        replace(result, config=replace(config, seed=1)),
        replace(result, config=replace(config, training=replace(config.training, learning_rate=0.5))),
        replace(result, config=replace(config, agent=AgentConfig(tokens="interleaved"))),
    ]
    all_of_them = [result, *others]
    assert len({write_result(tmp_path, each) for each in all_of_them}) == len(all_of_them)
    for each in all_of_them:
        assert find_result(tmp_path, each.key) == each


def test_result_key_ignores_what_weights_and_scores_do_not_depend_on(result: Result) -> None:
    config = replace(result.config, path="elsewhere.hdf5", evaluation=EvaluationConfig(episodes=77))
    assert replace(result, config=config).key == result.key
    one, other = (replace(result, config=replace(config, plugins=named)).key for named in (("a", "b"), ("b", "a")))
    assert one == other != result.key
    assert one.file_name == other.file_name
    assert replace(result, evaluation_seconds=9.0, commit="other").key.file_name == result.key.file_name


def test_result_file_name_has_step_and_protocol_without_an_unused_window(result: Result, tmp_path: Path) -> None:
    name = write_result(tmp_path, result).relative_to(tmp_path).as_posix()
    assert name.startswith("results/step-10-recurrent-1-episodes-")
    windowed = replace(result, protocol=replace(result.protocol, state="window", window=20, episodes=100))
    assert windowed.key.file_name.startswith("step-10-window-20-100-episodes-")
    one, other = (Protocol.from_settings(EvaluationConfig(window=window), (2.0, 1.0), True) for window in (5, 20))
    assert one == other


def test_write_result_into_an_unwritable_folder_raises_one_line(result: Result, tmp_path: Path) -> None:
    (tmp_path / "results").write_text("in the way")
    with pytest.raises(InputError) as caught:
        write_result(tmp_path, result)
    assert str(caught.value) == f"cannot write {tmp_path / 'results' / result.key.file_name}: File exists"
    assert (tmp_path / "results").read_text() == "in the way"
