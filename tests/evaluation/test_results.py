"""Reading and writing results, old formats too; each step, dataset, protocol and configuration has its own file."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from decision_rnn.agent import AgentConfig
from decision_rnn.config import EvaluationConfig
from decision_rnn.evaluation.evaluate import score
from decision_rnn.evaluation.results import Protocol, Result, read_result, result_file, stored_result, write_result
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError

Make = Callable[..., TrainedAgent]


@pytest.fixture
def result(pendulum: Make) -> Result:
    return score(pendulum(), EvaluationConfig(episodes=1, target_returns=(-300.0,)))


def changed(data: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The content of a result file with another value at a path; None removes the key."""
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return data


def test_read_result_returns_what_write_result_wrote(result: Result, tmp_path: Path) -> None:
    path = write_result(tmp_path, result)
    assert read_result(path) == result
    assert json.loads(path.read_text())["schema"] == 4


def found(run: Path, result: Result, **changes: Any) -> Result | None:
    """What is stored in a run's folder for the configuration, data, step and protocol of a result, with changes."""
    result = replace(result, **changes)
    protocol = result.protocol
    settings = EvaluationConfig(
        episodes=protocol.episodes,
        target_returns=protocol.target_returns,
        inference=protocol.inference,
        window=protocol.window or 20,
        seed=protocol.seed,
    )
    return stored_result(run, result.config, result.dataset, result.step, settings)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "damaged"),
        (b"\xff\xfe", "damaged"),
        (b"[]", "damaged"),
        (b"{}", "damaged"),
        ((("targets",), [3]), "damaged"),
        ((("protocol", "inference"), None), "damaged"),
        ((("dataset", "return_mean"), "high"), "damaged"),
        ((("schema",), 99), "schema 99"),
        ((("config", "backbone", "name"), "nothing"), "nothing"),
    ],
)
def test_damaged_result_file_raises_in_read_result_and_is_skipped_in_a_run(
    content: Any, words: str, result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "result.json"
    if isinstance(content, tuple):
        content = json.dumps(changed(result.to_dict(), *content)).encode()
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_result(path)
    assert str(path) in str(caught.value)
    write_result(tmp_path, result)
    path.rename(tmp_path / "results" / "a.json")
    assert found(tmp_path, result) == result
    assert "a.json" in capsys.readouterr().err


def test_result_without_newer_configuration_keys_is_found(result: Result, tmp_path: Path) -> None:
    """Without `top_fraction`, all episodes were trained on."""
    path = write_result(tmp_path, result)
    data = json.loads(path.read_text())
    del data["config"]["top_fraction"]
    path.write_text(json.dumps(data))
    assert found(tmp_path, result) == result
    assert found(tmp_path, result, config=replace(result.config, top_fraction=0.1)) is None


def test_results_with_different_keys_have_different_files(result: Result, tmp_path: Path) -> None:
    protocol, config = result.protocol, result.config
    others = [
        replace(result, step=2),
        replace(result, dataset=replace(result.dataset, fingerprint="0" * 64)),
        replace(result, protocol=replace(protocol, episodes=2)),
        replace(result, protocol=replace(protocol, seed=3)),
        replace(result, protocol=replace(protocol, target_returns=(-301.0,))),
        replace(result, protocol=replace(protocol, inference="window", window=20)),
        replace(result, protocol=replace(protocol, inference="window", window=5)),
        replace(result, config=replace(config, seed=1)),
        replace(result, config=replace(config, training=replace(config.training, learning_rate=0.5))),
        replace(result, config=replace(config, agent=AgentConfig(tokens="interleaved"))),
    ]
    all_of_them = [result, *others]
    assert len({write_result(tmp_path, each) for each in all_of_them}) == len(all_of_them)
    for each in all_of_them:
        assert found(tmp_path, each) == each
    rescaled = replace(result.dataset, reference_max=result.dataset.reference_max + 1)
    assert found(tmp_path, result, dataset=rescaled) is None


def test_result_key_ignores_what_weights_and_scores_do_not_depend_on(result: Result, tmp_path: Path) -> None:
    config = replace(result.config, path="elsewhere.hdf5", evaluation=EvaluationConfig(episodes=77))
    assert replace(result, config=config).key == result.key
    one, other = (replace(result, config=replace(config, plugins=named)) for named in (("a", "b"), ("b", "a")))
    assert one.key == other.key != result.key
    assert result_file(tmp_path, one) == result_file(tmp_path, other)
    assert replace(result, evaluation_seconds=9.0, commit="other").key == result.key


def test_result_file_name_has_step_and_protocol_without_an_unused_window(result: Result, tmp_path: Path) -> None:
    name = write_result(tmp_path, result).relative_to(tmp_path).as_posix()
    assert name.startswith("results/step-10-recurrent-1-episodes-")
    windowed = replace(result, protocol=replace(result.protocol, inference="window", window=20, episodes=100))
    assert result_file(tmp_path, windowed).name.startswith("step-10-window-20-100-episodes-")
    one, other = (
        Protocol.from_settings(EvaluationConfig(window=window), result.dataset, result.config) for window in (5, 20)
    )
    assert one == other


def test_write_result_into_an_unwritable_folder_raises_one_line(result: Result, tmp_path: Path) -> None:
    (tmp_path / "results").write_text("in the way")
    with pytest.raises(InputError) as caught:
        write_result(tmp_path, result)
    assert str(caught.value) == f"cannot write {result_file(tmp_path, result)}: File exists"
    assert (tmp_path / "results").read_text() == "in the way"


def test_result_that_cannot_be_written_is_printed_before_the_error(
    result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").write_text("a file where the folder should be")
    with pytest.raises(InputError, match="cannot write"):
        write_result(tmp_path, result)
    assert capsys.readouterr().out == f"{result}\n"
