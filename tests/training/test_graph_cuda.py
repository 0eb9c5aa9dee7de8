"""A training step as a CUDA graph, and without waiting for the GPU; skipped without one."""

import copy
import math

import pytest
import torch
from run_config import parse_run
from torch import nn

from decision_rnn.backbones import BACKBONES, Backbone, registered
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.training.graph import no_reads
from decision_rnn.training.prepare import prepare
from decision_rnn.training.trainer import Trainer

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)

STEPS, BROKEN = 12, 7


def make(store: EpisodeStore, *options: str) -> tuple[Trainer, StepStream]:
    words = ["hopper-medium", "--backbone.width", "16", "--backbone.layers", "2", "--training.device", "cuda"]
    words += ["--training.precision", "fp32", "--training.warmup_steps", "0", *options]
    _, trainer, stream = prepare(parse_run("test", words)[0], store, 1.0)
    return trainer, stream


def run(trainer: Trainer, stream: StepStream, first: int = 1) -> torch.Tensor:
    """The losses, of which one is not finite."""
    losses = []
    for step in range(first, STEPS + 1):
        batch = stream.sample()
        if step == BROKEN:
            batch.observation.fill_(math.nan)
        losses.append(trainer.step(batch).loss)
    return torch.stack(losses)


def assert_captured(trainer: Trainer) -> None:
    assert trainer.captured is not None
    assert trainer.captured.replay is not None


def assert_captured_as_eager(store: EpisodeStore, *options: str) -> torch.Tensor:
    """The losses of eager steps, which those of captured ones must equal."""
    eager, stream = make(store, "--training.cuda_graph", "false", *options)
    right = run(eager, stream)
    trainer, stream = make(store, "--training.cuda_graph", "true", *options)
    torch.testing.assert_close(run(trainer, stream), right, rtol=1e-3, atol=0, equal_nan=True)
    assert_captured(trainer)
    return right


@pytest.mark.parametrize("carried", [[], ["--training.tbptt_segments", "3"]], ids=["", "carried"])
@pytest.mark.parametrize("backbone", BACKBONES.names())
def test_captured_losses_equal_eager_ones(store: EpisodeStore, backbone: str, carried: list[str]) -> None:
    right = assert_captured_as_eager(store, "--backbone", backbone, *carried)
    assert right.isnan().nonzero().tolist() == [[BROKEN - 1]]


@pytest.mark.parametrize(
    "options",
    [
        ["--objective", "flow_matching"],
        ["--objective", "gmm"],
        ["--objective", "action_chunk"],
        ["--agent.timestep_embedding", "true", "--agent.tokens", "interleaved", "--agent.previous_action", "true"],
        ["--agent.conditioning", "adaln"],
        ["--backbone.dropout", "0.2", "--training.precision", "bf16"],
    ],
)
def test_captured_agent_draws_and_learns_as_an_eager_one(store: EpisodeStore, options: list[str]) -> None:
    assert_captured_as_eager(store, *options)


def test_skipped_step_of_a_graph_changes_nothing(store: EpisodeStore) -> None:
    trainer, stream = make(store)
    run(trainer, stream)
    assert_captured(trainer)
    (optimizer,) = trainer.optimizers
    before = copy.deepcopy((trainer.model.state_dict(), trainer.result.state_dict(), optimizer.state_dict()["state"]))
    for row in (1, 2):
        batch = stream.sample()
        batch.observation.fill_(math.nan)
        assert trainer.step(batch).skipped == 1
        assert trainer.skipped_in_a_row == row
    after = trainer.model.state_dict(), trainer.result.state_dict(), optimizer.state_dict()["state"]
    assert str(after) == str(before)
    assert trainer.step(stream.sample()).skipped == 0
    assert trainer.skipped_in_a_row == 0


def test_graph_resumes_to_the_same_losses(store: EpisodeStore) -> None:
    options = ["--training.cuda_graph", "true", "--backbone.dropout", "0.2", "--training.tbptt_segments", "3"]
    trainer, stream = make(store, *options)
    for _ in range(6):
        trainer.step(stream.sample())
    saved = copy.deepcopy((trainer.state_dict(), trainer.result.state_dict(), stream.state_dict()))
    right = run(trainer, stream, 7)
    torch.manual_seed(999)
    resumed, stream = make(store, *options)
    resumed.result.load_state_dict(saved[1])
    resumed.load_state_dict(saved[0])
    stream.load_state_dict(saved[2])
    torch.testing.assert_close(run(resumed, stream, 7), right, rtol=1e-3, atol=0, equal_nan=True)
    assert_captured(resumed)


@pytest.mark.parametrize("graph", ["true", "false"])
def test_step_and_its_batch_do_not_wait_for_the_gpu(store: EpisodeStore, graph: str) -> None:
    trainer, stream = make(store, "--training.cuda_graph", graph)
    run(trainer, stream)
    with no_reads():
        for _ in range(3):
            trainer.step(stream.sample())


def test_step_that_reads_falls_back_and_still_draws(store: EpisodeStore, capsys: pytest.CaptureFixture[str]) -> None:
    """Also after a capture that began and failed."""
    trainer, stream = make(store, "--backbone.dropout", "0.2")
    hook = trainer.model.embedding_norm.register_forward_hook(
        lambda module, arguments, output: output.sum().item() if torch.cuda.is_current_stream_capturing() else None
    )
    losses = run(trainer, stream)
    hook.remove()
    assert losses.isfinite().sum() == STEPS - 1
    assert trainer.captured is not None
    assert trainer.captured.failed
    assert torch.rand(3, device="cuda").isfinite().all()
    assert "without a CUDA graph" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["gru", "lstm", "rnn"])
def test_copy_of_torch_layers_has_weights_in_one_piece(name: str) -> None:
    backbone = Backbone(registered(name).config(name=name, width=8)).cuda()
    for module in copy.deepcopy(backbone).modules():
        if isinstance(module, nn.RNNBase):
            assert len({weight.untyped_storage().data_ptr() for weight in module.parameters()}) == 1
