"""Training: the learning rate schedule, the logs and resumed runs."""

import math
import shutil
import time
from collections.abc import Collection
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from run_config import parse_run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from decision_rnn.agent import ObjectiveConfig, register_objective
from decision_rnn.agent.objectives.mse import MSE
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.sources.standin import StandinSource
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import Batch
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent
from decision_rnn.runs.folder import checkpoints_of, last_checkpoint
from decision_rnn.training.loop import TrainingLoop
from decision_rnn.training.prepare import prepare
from decision_rnn.training.run import Run
from decision_rnn.training.train import train
from decision_rnn.training.trainer import StepOutput, Trainer
from decision_rnn.utils.errors import InputError

pytestmark = pytest.mark.usefixtures("small_store")


def configure(*arguments: str) -> RunConfig:
    small = ["--backbone.width", "16", "--training.log_every", "2", "--training.checkpoint_every", "4"]
    return parse_run("test", ["hopper-medium", *small, "--training.steps", "10", *arguments])[0]


def weights(run: Path) -> bytes:
    return (last_checkpoint(run) / "weights.safetensors").read_bytes()


def test_metrics_have_the_learning_rate_of_their_step(tmp_path: Path) -> None:
    steps = ["--training.steps", "4", "--training.warmup_steps", "2"]
    train(configure("--training.log_every", "1", *steps), output=tmp_path / "run")
    # Two steps of warm-up, then a cosine to zero after two.
    assert Run(tmp_path / "run").metrics["learning_rate"] == pytest.approx([5e-4, 1e-3, 1e-3, 5e-4])


@pytest.mark.parametrize(
    "extra", [[], ["--training.precision", "bf16"], ["--backbone", "lru", "--agent.tokens", "interleaved"]]
)
def test_loss_falls_below_a_fifth_of_the_action_variance(store: EpisodeStore, extra: list[str]) -> None:
    """The store's actions follow from observation and previous action: most of their variance can be learned."""
    short = ["--training.steps", "200", "--training.warmup_steps", "20", "--training.learning_rate", "1e-2"]
    small = ["--training.batch_size", "16", "--training.context", "10", "--backbone.layers", "2"]
    _, trainer, stream = prepare(configure(*short, *small, *extra), store, 1.0)
    losses = [trainer.step(stream.sample()).loss.item() for _ in range(200)]
    variance = store.table[:, store.columns["action"]].var()
    assert losses[0] > 0.8 * variance
    assert sum(losses[-20:]) / 20 < 0.2 * variance


@pytest.mark.parametrize("backbone", ["mingru", "transformer", "mlp", "conv"])
def test_segments_with_carried_state_equal_one_long_segment(store: EpisodeStore, backbone: str) -> None:
    """Three consecutive segments give the same losses as one that is three times as long."""
    same = ["--training.learning_rate", "0", "--training.context", "8", "--training.precision", "fp32"]
    same += ["--condition.rtg_quantile", "0"]  # as in `asked` below
    agent, trainer, stream = prepare(
        configure("--backbone", backbone, *same, "--training.tbptt_segments", "5"), store, 1.0
    )
    batches = [stream.sample() for _ in range(3)]
    fields = [name for name in Batch._fields if name != "reset"]
    whole = {name: torch.cat([getattr(batch, name) for batch in batches], dim=1) for name in fields}
    reset = torch.cat([batch.reset for batch in batches], dim=1)
    action, asked = whole["action"], whole["return_to_go"]
    predicted, *_ = agent.predict(asked, whole["observation"], whole["previous_action"], whole["timestep"], reset)
    losses = [trainer.step(batch).loss for batch in batches]
    expected = [((predicted - action)[:, 8 * i : 8 * i + 8] ** 2).mean() for i in range(3)]
    torch.testing.assert_close(torch.stack(losses), torch.stack(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        ["--backbone", "mingru"],
        ["--training.optimizer", "muon"],
        ["--backbone", "transformer", "--training.tbptt_segments", "3"],
        ["--backbone", "mlp", "--training.tbptt_segments", "3"],  # whose carried state is empty
        ["--training.ema_decay", "0.9", "--condition.rtg_quantile", "0.9"],
        ["--training.segment_start", "episode", "--top_fraction", "0.2", "--training.sensor_fault", "noise"],
        ["--objective", "gmm", "--objective.num_components", "2"],
        ["--objective", "action_chunk", "--objective.chunk_size", "3"],
        ["--objective", "flow_matching", "--objective.width", "16"],
    ],
)
def test_resumed_run_is_bit_identical(tmp_path: Path, options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure(*options, "--backbone.dropout", "0.2")
    train(config, output=tmp_path / "whole")

    step = Trainer.step
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(Trainer, "step", lambda trainer, batch: step(trainer, batch) if trainer.steps < 7 else 1 / 0)
        train(config, output=tmp_path / "broken")
    assert last_checkpoint(tmp_path / "broken").name == "4"
    torch.manual_seed(999)
    train(config, output=tmp_path / "broken", resume=True)
    assert weights(tmp_path / "broken") == weights(tmp_path / "whole")
    whole, resumed = (Run(tmp_path / name).metrics for name in ("whole", "broken"))
    assert resumed["step"].tolist() == [2, 4, 6, 8, 10]
    assert resumed["loss"].tolist() == whole["loss"].tolist()


def test_checkpoint_between_lines_resumes_to_the_same_losses(tmp_path: Path) -> None:
    """The last line, of step 10, is the mean of the losses of steps 9 and 10, and the run resumes from step 9."""
    config, run = configure("--training.checkpoint_every", "3", "--training.log_every", "4"), tmp_path / "run"
    train(config, output=run)
    before, whole = weights(run), Run(run).metrics
    assert whole["step"].tolist() == [4, 8, 10]
    shutil.rmtree(run / "checkpoints" / "10")
    train(config, output=run, resume=True)
    assert weights(run) == before
    assert Run(run).metrics["loss"].tolist() == whole["loss"].tolist()


def test_losses_before_a_checkpoint_are_restored_on_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, run, devices = configure("--training.checkpoint_every", "3"), tmp_path / "run", set[str]()
    train(config, output=run)
    shutil.rmtree(run / "checkpoints" / "10")

    def restore_elsewhere(trainer: Trainer, state: object) -> None:
        trainer.device = torch.device("meta")

    monkeypatch.setattr(Trainer, "load_state_dict", restore_elsewhere)
    monkeypatch.setattr(TrainingLoop, "run", lambda loop, _: devices.add(loop.means["loss"][0].device.type))
    train(config, output=run, resume=True)
    assert devices == {"meta"}


def test_random_states_of_other_gpus_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: pytest.fail(f"read that of {device}"))
    train(configure("--training.device", "cpu"), output=tmp_path / "run", callback=lambda *arguments: None)


def test_weights_depend_on_the_seed_alone(tmp_path: Path) -> None:
    for name, seed in [("a", "0"), ("b", "0"), ("c", "1")]:
        train(configure("--seed", seed), output=tmp_path / name)
    assert weights(tmp_path / "a") == weights(tmp_path / "b") != weights(tmp_path / "c")


def test_run_is_not_overwritten_or_resumed_with_other_options(tmp_path: Path) -> None:
    train(configure(), output=tmp_path / "run")
    before = weights(tmp_path / "run")
    with pytest.raises(InputError, match=r"already holds a run.*--resume.*run-2"):
        train(configure(), output=tmp_path / "run")
    with pytest.raises(InputError, match=r"training\.learning_rate 0\.001, not 0\.1"):
        train(configure("--training.learning_rate", "0.1"), output=tmp_path / "run", resume=True)
    with pytest.raises(InputError, match=r"with training\.steps \d+, not 4\. "):  # not the warm-up that follows from it
        train(configure("--training.steps", "4"), output=tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == before
    # Evaluation options may change.
    train(configure("--evaluation.episodes", "3"), output=tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == before


def test_overwritten_run_leaves_nothing_of_itself(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(configure("--training.steps", "8"), output=folder)
    (folder / "results").mkdir()
    (folder / "thesis").mkdir()
    for options in ({"resume": True}, {"steps": 4, "training": {"warmup_steps": 9}}):
        with pytest.raises(InputError, match=r"resume|warmup_steps"):
            train(configure(), output=folder, overwrite=True, **options)
    assert last_checkpoint(folder).name == "8"
    shorter = train(configure("--training.steps", "4", "--seed", "1"), output=folder, overwrite=True)
    fresh = train(configure("--training.steps", "4", "--seed", "1"), output=tmp_path / "fresh")
    assert weights(folder) == weights(tmp_path / "fresh")
    assert "8" not in [checkpoint.name for checkpoint in checkpoints_of(folder)]
    assert shorter.metrics["step"].tolist() == fresh.metrics["step"].tolist()
    assert not (folder / "results").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    train(configure(), output=tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "notes").exists()  # the folder held no run
    assert (folder / "thesis").is_dir()  # nor is this a run's


@pytest.mark.parametrize("options", [{"overwrite": True}, {"resume": True}])
def test_run_interrupted_before_its_first_step_is_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """While its loggers are imported."""
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("decision_rnn.runs.folder.Loggers", Mock(side_effect=KeyboardInterrupt))
        train(configure(), output=tmp_path / "run")
    train(configure(), output=tmp_path / "run", **options)
    train(configure(), output=tmp_path / "fresh")
    assert weights(tmp_path / "run") == weights(tmp_path / "fresh")


def test_configuration_of_something_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("theme: dark\n")
    with pytest.raises(InputError, match=r"config\.yaml"):
        train(configure(), output=tmp_path, overwrite=True)
    assert (tmp_path / "config.yaml").read_text() == "theme: dark\n"


def test_refused_target_leaves_the_folder_free(tmp_path: Path) -> None:
    unlimited = ["--condition.rtg_quantile", "0"]
    with pytest.raises(InputError, match="auto"):
        train(configure(*unlimited, "--evaluation.target_returns", "auto"), output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    train(configure(*unlimited), output=tmp_path / "run")


def test_resumed_run_may_log_differently_and_take_more_steps(tmp_path: Path) -> None:
    constant = ["--training.schedule", "constant"]
    train(configure(*constant), output=tmp_path / "run")
    others = ["--training.device", "cpu", "--training.log_every", "3", "--training.checkpoint_every", "7"]
    train(configure(*constant, *others, "--training.steps", "16"), output=tmp_path / "run", resume=True)
    whole = configure(*constant, "--training.steps", "16", "--training.warmup_steps", "2")  # the default of 10 steps
    train(whole, output=tmp_path / "whole")
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")
    assert Run(tmp_path / "run").config.training.steps == 16
    with pytest.raises(InputError, match=r"training\.steps 16, not 10"):
        train(configure(*constant), output=tmp_path / "run", resume=True)
    train(configure(), output=tmp_path / "cosine")
    with pytest.raises(InputError, match=r"training\.steps 10, not 16"):  # its rate falls to zero there
        train(configure("--training.steps", "16"), output=tmp_path / "cosine", resume=True)


def test_resume_with_changed_dataset_contents_raises(tmp_path: Path, store: EpisodeStore) -> None:
    train(configure(), output=tmp_path / "run")
    path = last_checkpoint(tmp_path / "run") / "config.json"
    path.write_text(path.read_text().replace(store.fingerprint, "0" * 64))
    with pytest.raises(InputError, match=r"other contents .* --init_from .*/run, "):
        train(configure(), output=tmp_path / "run", resume=True)


def break_steps(monkeypatch: pytest.MonkeyPatch, broken: str, steps: Collection[int]) -> None:
    """Make the observations, and with them the loss, of these steps NaN, or only the gradient, or the weights after."""
    step = Trainer.step

    def diverge(trainer: Trainer, batch: Batch) -> StepOutput:
        hook = None
        if trainer.steps + 1 in steps:
            if broken == "loss":
                batch.observation.fill_(math.nan)
            if broken == "gradient":
                hook = trainer.parameters[0].register_hook(lambda gradient: gradient * math.nan)
        output = step(trainer, batch)
        if broken == "weights" and trainer.steps in steps:
            trainer.parameters[0].data.fill_(math.inf)
        if hook is not None:
            hook.remove()
        return output

    monkeypatch.setattr(Trainer, "step", diverge)


@pytest.mark.parametrize("broken", ["loss", "gradient"])
def test_skipped_steps_change_nothing_and_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    """Step 3, after which the run goes on, and the last two, after which the weights are those of step 8."""
    break_steps(monkeypatch, broken, (3, 9, 10))
    train(configure("--training.log_every", "5", "--training.ema_decay", "0"), output=tmp_path / "run")
    eighth, tenth = (load_agent(tmp_path / "run/checkpoints" / step).agent.state_dict() for step in ("8", "10"))
    assert {name: weight.tolist() for name, weight in eighth.items()} == {name: w.tolist() for name, w in tenth.items()}
    assert all(weight.isfinite().all() for weight in tenth.values())
    assert "skipped 2 of the last 5 updates" in capsys.readouterr().err
    metrics = Run(tmp_path / "run").metrics
    assert metrics["skipped"] == pytest.approx([1 / 5, 2 / 5])
    assert np.isfinite(metrics["loss"]).all()


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        ("loss", "last 10 updates .* at step 16"),
        ("gradient", "last 10 updates .* at step 16"),
        ("weights", "weights .* at step 8"),
    ],
)
def test_diverging_run_keeps_only_finite_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, what: str
) -> None:
    """From step 7 on; ten steps that are skipped in a row end the run."""
    break_steps(monkeypatch, broken, range(7, 31))
    run, rare = tmp_path / "run", ["--training.log_every", "30", "--training.checkpoint_every", "2"]
    intact = "6" if broken == "weights" else "14"
    with pytest.raises(InputError, match=rf"{what} of .*step {intact} is intact"):
        train(configure(*rare, "--training.steps", "30"), output=run)
    kept = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert intact in kept
    for name in kept:
        for parameter in load_agent(run / "checkpoints" / name).agent.parameters():
            assert parameter.isfinite().all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--observation.mask", "velocity"], r"observation\.mask is velocity"),
        (["--training.device", "cuda"], r"training\.device is cuda"),
        (["--top_fraction", "0.01", "--training.context", "70"], r"top_fraction 0\.01.*training\.context 70"),
        (["--objective", "greedy"], "objective greedy .* actions"),
    ],
)
def test_refused_run_leaves_no_folder_and_can_be_corrected(
    registries: None,
    store: EpisodeStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    sentence: str,
) -> None:
    act = {
        "__init__": lambda self, config, spec: MSE.__init__(self, spec),
        "action": lambda self, hidden: torch.full_like(self.head(hidden), 2.0) + 0 * self.head.weight.sum(),
    }
    greedy = type("Greedy", (MSE,), act)
    config = make_dataclass("GreedyConfig", [("name", str, "greedy")], bases=(ObjectiveConfig,), frozen=True)
    register_objective(config)(greedy)
    unknown = EpisodeStore.write(tmp_path / "data", store, environment_id="Swing-v0", source={})
    monkeypatch.setattr(StandinSource, "open", lambda source, name, path: unknown)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=sentence):
        train(configure(*options, "--evaluation.episodes", "0"), output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    train(configure("--evaluation.episodes", "0"), output=tmp_path / "run")


def test_callback_affects_neither_training_nor_its_time(tmp_path: Path) -> None:
    config, calls = configure("--backbone.dropout", "0.2"), []

    def meddle(step: int, metrics: dict[str, float], trained: TrainedAgent) -> None:
        calls.append((step, metrics["loss"], trained.step, trained.agent.training))
        time.sleep(0.2)
        torch.rand(3)
        trained.agent.train()
        with torch.no_grad():
            for parameter in trained.agent.parameters():
                parameter.zero_()

    train(config, output=tmp_path / "alone")
    start = time.perf_counter()
    trained = train(config, output=tmp_path / "watched", callback=meddle).agent
    elapsed = time.perf_counter() - start
    assert weights(tmp_path / "watched") == weights(tmp_path / "alone")
    for name in ("alone", "watched"):
        logged = Run(tmp_path / name).metrics
        losses = zip(logged["step"].tolist(), logged["loss"].tolist(), strict=True)
        assert calls == [(step, loss, step, False) for step, loss in losses]
    assert trained.seconds < elapsed - 5 * 0.2  # the callback's time does not count as training time
    with pytest.raises(ZeroDivisionError):
        train(config, output=tmp_path / "failed", callback=lambda *now: 1 / 0)


def test_resumed_run_evaluates_its_starting_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been killed between writing the checkpoint and evaluating it."""
    run, steps = tmp_path / "run", []

    class Scores:
        def scalars(self, kind: str) -> dict[str, float]:
            return {f"{kind}/score": 1.0}

    def evaluate(folder: Path, trained: TrainedAgent, settings: EvaluationConfig) -> Scores:
        assert settings.episodes == 3
        steps.append(trained.step)
        return Scores()

    monkeypatch.setattr("decision_rnn.training.loop.evaluate_once", evaluate)
    config = configure("--evaluation.checkpoint_episodes", "3")
    train(config, output=run)
    shutil.rmtree(last_checkpoint(run))
    train(config, output=run, resume=True)
    assert steps == [4, 8, 10, 8, 10]
    events = EventAccumulator(str(run)).Reload().Scalars("checkpoints/score")
    assert {event.step for event in events} == {4, 8, 10}
