"""Packaged agents: their contents, model card and commands."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
import yaml
from gymnasium.wrappers import RecordEpisodeStatistics
from safetensors.torch import load_file

from decision_rnn import EnvironmentActor, InputError, load_agent
from decision_rnn.config import EvaluationConfig
from decision_rnn.deploy import package as packaging
from decision_rnn.deploy.onnx import describe
from decision_rnn.deploy.package import package, write_card
from decision_rnn.evaluation.evaluate import score
from decision_rnn.evaluation.held_out import HeldOutScore
from decision_rnn.evaluation.results import read_result, write_result
from decision_rnn.evaluation.targets import default_return
from decision_rnn.runs.checkpoint import TrainedAgent, write_agent
from decision_rnn.runs.folder import last_checkpoint


def front_matter(card: str) -> dict[str, Any]:
    _, matter, _ = card.split("---\n", 2)
    return yaml.safe_load(matter)


@pytest.mark.usefixtures("without_extras")
def test_package_has_agent_results_and_card_without_local_paths(run: Path, tmp_path: Path) -> None:
    """For a run on a data file and from an agent whose paths are in its configuration and results."""
    before = last_checkpoint(run)
    (result,) = (run / "results").iterdir()
    for file in (before / "config.json", result):
        contents = json.loads(file.read_text())
        contents["config"] |= {"path": str(tmp_path / "hopper.hdf5"), "init_from": str(tmp_path / "runs" / "first")}
        file.write_text(json.dumps(contents))
    folder, left_out = package(run, tmp_path / "packaged")
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    (packaged,) = (folder / "results").iterdir()
    assert files == ["README.md", "config.json", f"results/{packaged.name}", "weights.safetensors"]
    assert [sentence.split()[0] for sentence in left_out] == ["policy.onnx", "replay.mp4"]
    assert (folder / "weights.safetensors").read_bytes() == (before / "weights.safetensors").read_bytes()
    assert load_agent(folder).provenance == load_agent(before).provenance
    assert read_result(packaged).targets == read_result(result).targets
    for file in files:
        assert str(tmp_path).encode() not in (folder / file).read_bytes(), file
    with pytest.raises(InputError, match="packaged"):
        package(run, folder)
    folder, left_out = package(run / "checkpoints" / "5", tmp_path / "packaged at 5")
    assert not (folder / "results").exists()  # those are of the other checkpoint
    assert left_out[0].startswith("scores")
    card = (folder / "README.md").read_text()
    assert "\ndecision-rnn evaluate 'packaged at 5'\n" in card
    assert "model-index" not in front_matter(card)


@pytest.mark.usefixtures("without_extras")
def test_package_has_the_held_out_score_of_its_step(run: Path, tmp_path: Path) -> None:
    (file,) = (run / "results").iterdir()
    result = read_result(file)
    file.unlink()
    held_out = HeldOutScore(
        agent="mingru",
        step=result.step,
        dataset=str(tmp_path / "held-out"),
        fingerprint="f" * 64,
        measure="R2",
        entries=("torque",),
        steps=(10, 10),
        variance=(1.0,),
        errors={"agent": ((0.25,), (0.75,))},
    )
    errors = {"agent": ((0.5,), (0.75,))}
    earlier = replace(held_out, dataset="local/held-out", fingerprint="e" * 64, errors=errors)
    for written_at, each in ((2, held_out), (1, earlier)):
        os.utime(write_result(run, replace(result, targets=(), held_out=each)), (written_at, written_at))
    folder, left_out = package(run, tmp_path / "packaged")
    packaged = [*(folder / "results").iterdir()]
    card = (folder / "README.md").read_text()
    scores = [read_result(path).held_out for path in packaged]
    assert len(scores) == 2
    assert replace(held_out, dataset="held-out") in scores  # a path
    assert earlier in scores
    assert "0.500" in card  # of the newer one
    assert "0.375" not in card
    assert "Not evaluated" not in card
    assert str(tmp_path) not in card + packaged[0].read_text() + packaged[1].read_text()
    assert not left_out[0].startswith("scores")


def test_package_without_the_extra_of_videos_has_no_video(
    pendulum: Callable[..., TrainedAgent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    *_, sentence = packaging.write_package(tmp_path, pendulum(), [], "agent", shipped=True)
    assert sentence.startswith("replay.mp4 is left out: ")
    assert ".[video]" in sentence


def test_card_has_the_hubs_metadata_and_the_scores(run: Path, tmp_path: Path) -> None:
    trained = load_agent(last_checkpoint(run))
    (path,) = (run / "results").iterdir()
    result = read_result(path)
    (tmp_path / "policy.onnx").touch()
    card = write_card(tmp_path, trained, [result], "org/name")
    matter = front_matter(card)
    assert {"Pendulum-v1", "reinforcement-learning", "offline-reinforcement-learning"} <= set(matter["tags"])
    returns = np.array([target.returns for target in result.targets])
    (entry,) = matter["model-index"]
    assert len(entry["results"]) == len(result.targets) == 3
    for row, played in zip(entry["results"], returns, strict=True):
        assert row["dataset"]["name"] == "Pendulum-v1"
        assert row["dataset"]["args"]["trained_on"] == "local/pendulum"
        rewards, scores = (metric["value"].split(" +/- ") for metric in row["metrics"])
        np.testing.assert_allclose([float(x) for x in rewards], [played.mean(), played.std()], atol=0.01)
        normalised = 100 * (played + 1600) / 1450  # with references -1600 and -150
        np.testing.assert_allclose([float(x) for x in scores], [normalised.mean(), normalised.std()], atol=0.01)
    for words in ('load_agent("org/name")', "[hub,video]", "`policy.onnx`", "some note", "torch 2.", "f" * 64):
        assert words in card
    assert ", carried state, episode i from " in card
    library = pytest.importorskip("huggingface_hub")
    data = library.ModelCard(card).data
    assert data.library_name == "decision_rnn"
    assert [line.metric_type for line in data.eval_results][:2] == ["mean_reward", "normalized_score"]


def test_cloning_agent_takes_no_target_return(pendulum: Callable[..., TrainedAgent], tmp_path: Path) -> None:
    trained = pendulum(cloning=True)
    result = score(trained, EvaluationConfig(episodes=1), processes=1)
    card = write_card(tmp_path, trained, [result], "agent")
    (row,) = front_matter(card)["model-index"][0]["results"]
    assert "target_return" not in row["dataset"]["args"]
    assert "[hub" not in card
    with pytest.raises(InputError, match="target"):
        EnvironmentActor(trained, 500.0)


def test_default_return_is_the_first_evaluation_target(
    pendulum: Callable[..., TrainedAgent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run names targets other than the dataset's; checks card, ONNX description, clip and actor."""
    trained, targets = pendulum(), []
    trained = replace(trained, config=replace(trained.config, evaluation=EvaluationConfig(target_returns=(-350, -300))))
    monkeypatch.setattr(packaging, "film", lambda agent, video, target, *_: targets.append(target))
    packaging.write_package(tmp_path, trained, [], "agent", shipped=True)
    assert targets == [-350]
    assert ", -350, env=env)" in (tmp_path / "README.md").read_text()
    assert describe(trained)["target_return"]["default"] == -350
    first, own, of_the_dataset = (EnvironmentActor(trained, target)(np.ones(3)) for target in (None, -350, -200))
    assert first == own != of_the_dataset
    without = replace(trained.provenance, target_returns=())
    silent = replace(trained.config, evaluation=EvaluationConfig())
    assert default_return(silent, without) == -100  # the data's best is then the only target


@pytest.mark.parametrize(
    ("inference", "options"), [("recurrent", {}), ("recurrent", {"cloning": True}), ("window", {"rtg_quantile": 0.9})]
)
def test_card_python_example_has_the_return_of_evaluate(
    pendulum: Callable[..., TrainedAgent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inference: str, options: Any
) -> None:
    trained = pendulum(**options)
    evaluation = EvaluationConfig(episodes=1, seed=0, inference=inference, window=3)
    trained = replace(trained, config=replace(trained.config, evaluation=evaluation))
    write_agent(tmp_path, trained)
    card = write_card(tmp_path, load_agent(tmp_path), [], str(tmp_path))
    names: dict[str, Any] = {}
    make = gymnasium.make
    with monkeypatch.context() as patch:
        patch.setattr(gymnasium, "make", lambda name: RecordEpisodeStatistics(make(name)))
        exec(card.partition("```python\n")[2].partition("```")[0], names)
    result = score(trained, evaluation, processes=1)
    assert names["env"].return_queue[-1] == pytest.approx(result.targets[0].returns[0], abs=2e-3)


@pytest.mark.usefixtures("without_extras")
def test_package_with_policy(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixture refuses them; the first test of this file has what is then left out."""

    def export(trained: TrainedAgent, path: Path) -> None:
        path.write_bytes(str(trained.step).encode())

    monkeypatch.setattr(packaging, "export_onnx", export)
    folder, left_out = package(run, tmp_path / "packaged")
    assert (folder / "policy.onnx").read_bytes() == b"10"
    assert "`policy.onnx`" in (folder / "README.md").read_text()
    assert [sentence.split()[0] for sentence in left_out] == ["replay.mp4"]


def test_half_precision_rounds_only_parameters(run: Path, tmp_path: Path) -> None:
    trained = load_agent(run)
    write_agent(tmp_path, trained, half=True)
    stored = load_file(tmp_path / "weights.safetensors")
    parameters = dict(trained.agent.named_parameters())
    assert all((tensor.dtype == torch.float16) == (name in parameters) for name, tensor in stored.items())
    loaded = load_agent(tmp_path).agent.state_dict()
    for name, tensor in trained.agent.state_dict().items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor.half().float() if name in parameters else tensor)


@pytest.mark.usefixtures("without_extras")
def test_commands_on_a_package(inline_cli: Callable, run: Path, tmp_path: Path) -> None:
    """Its evaluation leaves it unchanged; that of a checkpoint is written into its run."""
    quick = ("--episodes", "1", "--processes", "1")
    assert inline_cli("evaluate", str(run / "checkpoints" / "5"), *quick).returncode == 0
    assert len(list((run / "results").glob("step-5-recurrent-1-episodes-*.json"))) == 1
    done = inline_cli("package", "run")
    folder = tmp_path / "packages" / "local-pendulum-mingru-seed0"
    assert done.stdout == f"written to {folder.relative_to(tmp_path)}\n"
    shutil.rmtree(run)
    before = sorted(folder.rglob("*"))
    assert inline_cli("evaluate", str(folder), *quick).returncode == 0
    assert sorted(folder.rglob("*")) == before
    assert inline_cli("evaluate", str(folder), *quick, "--output", "scores").returncode == 0
    assert len(list((tmp_path / "scores" / "results").iterdir())) == 1
    done = inline_cli("package", "nowhere")
    assert done.returncode == 2
    assert "nowhere" in done.stderr
