"""A training step as a CUDA graph, on the CPU: what is captured runs anew at every replay, in the same tensors."""

import copy
import math
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from run_config import parse_run
from torch import Tensor

from decision_rnn.backbones import BACKBONES
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import Batch, StepStream
from decision_rnn.training import graph
from decision_rnn.training.graph import WARM_UP, CapturedStep
from decision_rnn.training.prepare import prepare
from decision_rnn.training.trainer import Trainer
from decision_rnn.utils.errors import InputError

STEPS, BROKEN = 12, 7
EXACT = ["--training.learning_rate", "0.0009765625", "--training.warmup_steps", "0", "--training.schedule", "constant"]
"""A rate that float32, the dtype of a captured rate, represents."""


def run_anew(function: Callable[[], Tensor], stream: object) -> Callable[[], Tensor]:
    """In place of `graph.capture`."""
    results: list[Tensor] = []

    def replay() -> Tensor:
        result = function()
        results[:] = [result] if not results else [results[0].copy_(result)]
        return results[0]

    return replay


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for a GPU; the debug modes that were set."""
    modes = ["default"]
    stream = SimpleNamespace(wait_stream=lambda other: None)
    generator = SimpleNamespace(graphsafe_set_state=lambda state: None, clone_state=lambda: None)
    fakes = {
        "Stream": lambda: stream,
        "current_stream": lambda: stream,
        "stream": lambda stream: nullcontext(),
        "get_rng_state": torch.get_rng_state,
        "set_rng_state": torch.set_rng_state,
        "current_device": lambda: 0,
        "default_generators": [generator],
        "get_sync_debug_mode": lambda: modes[-1],
        "set_sync_debug_mode": modes.append,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(graph, "capture", run_anew)
    return modes


def make(store: EpisodeStore, *options: str) -> tuple[Trainer, StepStream]:
    small = ["--backbone.width", "8", "--backbone.layers", "2", "--backbone.dropout", "0.2", "--training.context", "8"]
    words = ["hopper-medium", *small, *EXACT, "--training.batch_size", "4", "--training.device", "cpu", *options]
    _, trainer, stream = prepare(parse_run("test", words)[0], store, 1.0)
    return trainer, stream


def run(trainer: Trainer, stream: StepStream, steps: range = range(1, STEPS + 1)) -> list[list[float]]:
    """Everything that the steps report, read after the last; the observations of one are not finite."""
    reports = []
    for step in steps:
        batch: Batch = stream.sample()
        if step == BROKEN:
            batch.observation.fill_(math.nan)
        output = trainer.step(batch)
        row = torch.tensor(float(trainer.skipped_in_a_row))
        reports.append([output.loss, output.gradient_norm, output.skipped, *output.metrics.values(), row])
    return [[*map(float, values)] for values in reports]


def everything(trainer: Trainer) -> str:
    optimizers = [optimizer.state_dict()["state"] for optimizer in trainer.optimizers]
    with torch.no_grad():
        return str((trainer.model.state_dict(), trainer.result.state_dict(), optimizers, torch.get_rng_state()))


@pytest.mark.parametrize(
    "options",
    [
        ["--backbone", "mingru"],
        ["--backbone", "lstm", "--training.tbptt_segments", "3"],
        ["--backbone", "slstm", "--training.tbptt_segments", "3"],  # whose state does not begin with zeros
        ["--backbone", "mlp", "--training.tbptt_segments", "3"],  # whose state is empty
        ["--objective", "flow_matching", "--objective.width", "16", "--training.ema_decay", "0.9"],
        ["--training.ema_decay", "0"],
    ],
)
def test_captured_steps_equal_eager_ones(store: EpisodeStore, modes: list[str], options: list[str]) -> None:
    trainer, stream = make(store, *options)
    reports, after = run(trainer, stream), everything(trainer)
    captured, stream = make(store, *options)
    captured.captured = CapturedStep(captured._advance, required=True)
    assert str(run(captured, stream)) == str(reports)
    assert everything(captured) == after
    assert captured.captured.calls == WARM_UP + 1
    assert [row[2] for row in reports] == [float(step == BROKEN) for step in range(1, STEPS + 1)]
    assert modes == ["default", "error", "default"]


def test_captured_run_resumes_to_the_same_weights(store: EpisodeStore, modes: list[str]) -> None:
    options = ["--backbone", "minlstm", "--training.tbptt_segments", "3"]
    trainer, stream = make(store, *options)
    trainer.captured = CapturedStep(trainer._advance, required=True)
    run(trainer, stream, range(1, 9))
    saved = copy.deepcopy((trainer.state_dict(), trainer.result.state_dict(), stream.state_dict()))
    whole = run(trainer, stream, range(9, STEPS + 1)), everything(trainer)
    resumed, stream = make(store, *options)
    resumed.result.load_state_dict(saved[1])
    resumed.load_state_dict(saved[0])
    resumed.captured = CapturedStep(resumed._advance, required=True)
    stream.load_state_dict(saved[2])
    assert (run(resumed, stream, range(9, STEPS + 1)), everything(resumed)) == whole


@pytest.mark.parametrize("where", ["read", "capture"])
@pytest.mark.parametrize("required", [False, True])
def test_step_that_cannot_be_captured_runs_eagerly(
    store: EpisodeStore,
    modes: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    where: str,
    required: bool,
) -> None:
    """A forward that reads from the GPU, after it drew random numbers, or an operation that graphs lack."""
    trainer, stream = make(store)
    reports, after = run(trainer, stream), everything(trainer)
    trainer, stream = make(store)
    trainer.captured = CapturedStep(trainer._advance, required)

    def fail(*arguments: object) -> None:
        if where == "capture" or modes[-1] == "error":
            torch.rand(3)
            raise RuntimeError("called a synchronizing CUDA operation")

    if where == "capture":
        monkeypatch.setattr(graph, "capture", fail)
    else:
        trainer.model.embedding_norm.register_forward_hook(fail)
    if required:
        with pytest.raises(RuntimeError, match="synchronizing"):
            run(trainer, stream)
        return
    assert str(run(trainer, stream)) == str(reports)
    assert everything(trainer) == after
    assert capsys.readouterr().err.count("called a synchronizing CUDA operation") == 1
    assert modes[-1] == "default"


@pytest.mark.parametrize("backbone", BACKBONES.names())
def test_step_of_every_layer_reads_nothing_on_the_host(
    store: EpisodeStore, monkeypatch: pytest.MonkeyPatch, backbone: str
) -> None:
    """A tensor without a value raises where it is read."""
    trainer, stream = make(store, "--backbone", backbone, "--objective", "action_chunk")
    agent, batch = trainer.model.to("meta"), Batch(*(part.to("meta") for part in stream.sample()))
    monkeypatch.setattr(torch, "autocast", lambda *arguments, **options: nullcontext())  # which refuses this device
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)
    for state in (None, agent.backbone.initial_state(4)):
        output = agent(batch, state)
        output.loss.backward()
    with pytest.raises(RuntimeError, match="meta"):
        output.loss.item()


def test_graph_that_cannot_be_made_is_refused(store: EpisodeStore) -> None:
    with pytest.raises(InputError, match=r"training\.cuda_graph"):
        make(store, "--training.cuda_graph", "true")
    assert make(store)[0].captured is None
