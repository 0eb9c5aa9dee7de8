"""The code that runs are made with: a changed plugin is noticed by results, comparisons and whatever loads an agent."""

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest
from guide import example
from gymnasium.envs.registration import EnvSpec
from small_comparison import Inline, pendulum_episodes, small

import decision_rnn
from decision_rnn import write_store
from decision_rnn.backbones import contract
from decision_rnn.cli.main import main
from decision_rnn.code_hashes import both, changed, code_of
from decision_rnn.comparison.compare import compare
from decision_rnn.comparison.comparing import plan
from decision_rnn.comparison.record import Comparison
from decision_rnn.comparison.report.page import build_page
from decision_rnn.config_parser import new_config
from decision_rnn.evaluation.metrics import METRICS
from decision_rnn.training.checkpoint import TrainedAgent, last_checkpoint, load_agent, save_checkpoint, trained_with

Capture = pytest.CaptureFixture[str]
Use = Callable[[str], None]
PLAIN = example("layers.py").replace('"average"', '"changing"')
ENERGY = example("mymetric.py")
BENT = PLAIN.replace("self.input(x)", "torch.sin(self.input(x))")


@pytest.fixture
def use(registries: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Use]:
    """Imports a text as the plugin `changing`, in place of what it was before, as a new process would."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(text: str) -> None:
        (tmp_path / "changing.py").write_text(text)
        contract.BACKBONES.entries.pop("changing", None)
        for name in ("energy", "distance"):
            METRICS.pop(name, None)
        sys.modules.pop("changing", None)
        importlib.invalidate_caches()
        importlib.import_module("changing")

    yield write
    sys.modules.pop("changing", None)
    for name in ("energy", "distance"):
        METRICS.pop(name, None)


@pytest.fixture
def comparing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Comparison, list[str]]]:
    """Compares the plugin with minGRU in a folder; returns the comparison and the runs that were started."""
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    write_store("local/mine", pendulum_episodes(0), "Pendulum-v1")

    def run(output: str, **more: object) -> tuple[Comparison, list[str]]:
        own = {"changing": {"backbone": {"name": "changing", "width": 16, "layers": 1}}, "mingru": {}}
        executor = Inline()
        keys = small(tmp_path / output, **{"variants": own, "plugins": ["changing"], **more})
        return compare(plan(keys, "test"), "", executor), executor.started

    return run


def test_comparison_trains_runs_that_use_a_changed_plugin_anew(
    use: Use,
    comparing: Callable[..., tuple[Comparison, list[str]]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use(PLAIN)
    before, started = comparing("runs")
    assert len(started) == 2
    assert comparing("runs") == (before, [])
    use('"""Another docstring."""\n\n' + PLAIN.replace("\n\n\n", "\n\n\n# A remark.\n"))
    assert comparing("runs") == (before, [])
    use(BENT)
    capsys.readouterr()
    after, started = comparing("runs")
    assert started == ["changing-seed0"]
    assert "1 of the runs were made with other code or contents of changing" in capsys.readouterr().err
    fresh, _ = comparing("elsewhere")
    scores = [[target.returns for target in trial.targets] for trial in (*after.trials, *fresh.trials)]
    assert scores[:2] == scores[2:]
    assert scores[0] != [target.returns for target in before.trials[0].targets]
    kept = tmp_path / "runs" / "local-mine" / "changing-seed0-earlier-1"
    assert trained_with(kept)[0] == before.trials[0].trained_with != after.trials[0].trained_with
    assert comparing("runs") == (after, [])


def test_comparison_repeats_the_evaluations_of_a_changed_metric_and_no_training(
    use: Use, comparing: Callable[..., tuple[Comparison, list[str]]], tmp_path: Path
) -> None:
    asked = {"variants": {"mingru": {}}, "evaluation.metrics": ["energy"], "checkpoint_episodes": 1}
    use(ENERGY)
    before, _ = comparing("runs", **asked)
    weights = last_checkpoint(tmp_path / "runs" / "local-mine" / "mingru-seed0") / "weights.safetensors"
    trained = weights.stat().st_mtime_ns
    assert comparing("runs", **asked) == (before, [])
    use(ENERGY.replace("0.0", "1.0"))
    after, started = comparing("runs", **asked)
    assert started == ["mingru-seed0"]
    assert weights.stat().st_mtime_ns == trained
    for old, new in zip(before.trials, after.trials, strict=True):
        for former, latter in zip(old.targets, new.targets, strict=True):
            assert latter.returns == former.returns
            assert latter.metrics["energy"].values == tuple(value + 1 for value in former.metrics["energy"].values)
    spent = [target.metrics["energy"] for target in after.trials[0].targets]
    assert [row["energy"] for row in after.table()] == [of.mean for of in spent]
    assert [row["energy"] for row in after.episode_table()] == [value for of in spent for value in of.values]
    assert (tmp_path / "runs" / "episodes.csv").read_text().splitlines()[0].endswith(",score,energy")
    assert decision_rnn.read_comparison(tmp_path / "runs") == after
    row = next(line for line in str(after).split("| energy |")[1].splitlines() if line.startswith("| mingru"))
    shown = [float(cell) for cell in row.strip(" |").split("|")[1:]]
    assert set(shown) <= {float(f"{of.mean:.4g}") for of in spent}
    assert "<caption>Energy</caption>" in build_page(after)


def test_plugin_of_an_environment_counts_for_every_run(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    use(PLAIN)
    config = new_config({"dataset": "local/mine", "plugins": ["changing"]}, "test")
    assert "changing" not in code_of(config)
    monkeypatch.setitem(gymnasium.registry, "Own-v0", EnvSpec("Own-v0", "changing:Average"))
    assert "changing" in code_of(config)


def test_evaluate_says_that_the_code_changed_and_keeps_the_earlier_result(
    use: Use,
    comparing: Callable[..., tuple[Comparison, list[str]]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use(PLAIN)
    comparing("runs")
    run = tmp_path / "runs" / "local-mine" / "changing-seed0"
    ((path, content),) = ((path, path.read_text()) for path in (run / "results").iterdir())
    evaluate = ["evaluate", str(run), "--plugins", "changing"]
    capsys.readouterr()
    assert main(evaluate) == 0
    assert capsys.readouterr().err == ""
    assert [file.name for file in (run / "results").iterdir()] == [path.name]
    content = path.read_text()
    use(BENT)
    assert main(evaluate) == 0
    assert "was trained with other code of changing than there is now" in capsys.readouterr().err
    assert path.read_text() == content
    (other,) = (json.loads(file.read_text()) for file in (run / "results").iterdir() if file != path)
    assert other["trained_with"] == json.loads(content)["trained_with"] != other["evaluated_with"]


def test_checkpoint_of_other_layers_of_the_package_is_noticed(
    pendulum: Callable[..., TrainedAgent], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = pendulum()
    now = code_of(trained.config)
    for step, (code, said) in enumerate(((now, False), ({}, False), ({"decision-rnn": "0" * 12}, True)), start=1):
        folder = save_checkpoint(tmp_path, replace(trained, code=code, step=step), {})
        assert load_agent(folder).code == code
        assert ("other code of decision-rnn" in capsys.readouterr().err) is said


def test_code_of_a_package_is_all_of_its_modules(use: Use, tmp_path: Path) -> None:
    package = tmp_path / "several"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text("A = 1\n")
    importlib.import_module("several")
    config = new_config({"dataset": "local/mine", "plugins": ["several"]}, "test")
    before = code_of(config)
    (package / "kernels.py").write_text("A = 2\n")
    assert changed(before, code_of(config)) == ["several"]
    assert "changing" not in before
    use(PLAIN)  # registered without being named as a plugin
    assert "changing" in code_of(new_config({"dataset": "local/mine", "backbone": "changing"}, "test"))


def test_code_of_a_resumed_run_differs_from_both() -> None:
    made = both({"decision-rnn": "a", "layers": "b"}, {"decision-rnn": "a", "layers": "c", "other": "d"})
    assert made == {"decision-rnn": "a", "layers": "b+c", "other": "d"}
    assert changed(made, {"layers": "c"}) == ["layers"]


def test_train_says_that_a_layer_was_never_checked_as_it_is(
    use: Use, comparing: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("DECISION_RNN_CACHE", str(tmp_path / "cache"))
    said = "changing.Average was never checked as it is now: `decision-rnn check changing.Average`"

    def train(output: str, backbone: str = "changing") -> str:
        config = {"evaluation": {"episodes": 0}, "training": {"context": 4}}
        decision_rnn.train("local/mine", {"name": backbone, "width": 8}, steps=1, output=tmp_path / output, **config)
        return capsys.readouterr().out

    use(PLAIN)
    assert train("first").count(said) == 1
    assert main(["check", "changing"]) == 0
    assert said not in train("second")
    assert said not in train("third", "mingru")
    use(BENT)
    assert said in train("fourth")
