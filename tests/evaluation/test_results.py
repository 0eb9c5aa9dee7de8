"""Results as files of a run: what is written is read, each key has its own file, and damaged ones are skipped."""

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
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import to_json


@pytest.fixture
def result(pendulum: Callable[..., TrainedAgent]) -> Result:
    return score(pendulum(), EvaluationConfig(episodes=1, target_returns=(-300.0,), max_episode_steps=5))


def stored(run: Path, result: Result, **changes: Any) -> Result | None:
    """What is stored in a run's folder for the configuration, data, step and protocol of a result, with changes."""
    result = replace(result, **changes)
    options = {name: value for name, value in vars(result.protocol).items() if value is not None}
    return stored_result(run, result.config, result.dataset, result.step, EvaluationConfig(**options))


def test_result_is_read_as_it_was_written(result: Result, tmp_path: Path) -> None:
    path = write_result(tmp_path, result)
    assert read_result(path) == result
    assert next(iter(json.loads(path.read_text()).items())) == ("schema", 4)
    assert path.relative_to(tmp_path).as_posix().startswith("results/step-10-recurrent-1-episodes-")
    windowed = replace(result, protocol=replace(result.protocol, inference="window", window=20, episodes=100))
    assert result_file(tmp_path, windowed).name.startswith("step-10-window-20-100-episodes-")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "step-10-a.json"),
        (b"\xff\xfe", "step-10-a.json"),
        (("schema", 99), "schema"),
        (("config", {"backbone": "nothing"}), "nothing"),
    ],
)
def test_damaged_file_is_named_and_skipped_in_a_run(
    content: Any, word: str, result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_result(tmp_path, result)
    path = tmp_path / "results" / "step-10-a.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(to_json(result) | dict([content])).encode())
    with pytest.raises(InputError, match=word):
        read_result(path)
    assert stored(tmp_path, result) == result
    assert "step-10-a.json" in capsys.readouterr().err


def test_result_without_newer_options_is_that_of_their_defaults(result: Result, tmp_path: Path) -> None:
    """Without `top_fraction`, all episodes were trained on."""
    path = write_result(tmp_path, result)
    data = json.loads(path.read_text())
    del data["config"]["top_fraction"]
    path.write_text(json.dumps(data))
    assert stored(tmp_path, result) == result
    assert stored(tmp_path, result, config=replace(result.config, top_fraction=0.1)) is None


def test_results_with_different_keys_have_different_files(result: Result, tmp_path: Path) -> None:
    protocol, config = result.protocol, result.config
    results = [
        result,
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
    assert len({write_result(tmp_path, each) for each in results}) == len(results)
    for each in results:
        assert stored(tmp_path, each) == each
    rescaled = replace(result.dataset, reference_max=result.dataset.reference_max + 1)
    assert stored(tmp_path, result, dataset=rescaled) is None


def test_key_ignores_what_weights_and_scores_do_not_depend_on(result: Result) -> None:
    training = replace(result.config.training, device="cpu", log_every=7, checkpoint_every=9)
    config = replace(result.config, path="elsewhere.hdf5", evaluation=EvaluationConfig(episodes=77), training=training)
    assert replace(result, config=config, evaluation_seconds=9.0, commit="other").key == result.key
    one, other = (replace(result, config=replace(config, plugins=names)) for names in (("a", "b"), ("b", "a")))
    assert one.key == other.key != result.key
    settings = EvaluationConfig(window=5), EvaluationConfig(window=20)
    carried = [Protocol.from_settings(each, result.dataset, result.config) for each in settings]
    assert carried[0] == carried[1]
