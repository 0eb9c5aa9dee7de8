"""`Trainer`: training steps of any module that returns its loss and a state."""

from pathlib import Path

import pytest
import torch
from run_config import parse_run
from torch import Tensor, distributed, nn

from decision_rnn.agent import TrainingOutput
from decision_rnn.backbones import State
from decision_rnn.config import RunConfig, TrainingConfig
from decision_rnn.data.store import EpisodeStore
from decision_rnn.training.prepare import prepare
from decision_rnn.training.trainer import Trainer

pytestmark = pytest.mark.filterwarnings(
    "ignore:Detected call of .lr_scheduler.step"
)  # because tests replace the optimizer


class Line(nn.Module):
    """Least squares of y = w x, starting at w = 0; its carried state is a count."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1, 1))
        self.states: list[State | None] = []

    def forward(self, batch: tuple[Tensor, Tensor], state: State | None = None) -> TrainingOutput:
        self.states.append(state)
        x, y = batch
        count = torch.zeros(()) if state is None else state[0]
        loss = (x @ self.w - y).square().mean()
        return TrainingOutput(loss, {"w": self.w.sum()}, (count + self.w.sum() * 0 + 1,))


def settings(**options: object) -> TrainingConfig:
    return TrainingConfig(**{"steps": 100, "warmup_steps": 0, "precision": "fp32", "device": "cpu", **options})


def data() -> tuple[Tensor, Tensor]:
    x = torch.linspace(-1, 1, 32)[:, None]
    return x, 3 * x


def test_trainer_trains_any_module_that_returns_its_loss() -> None:
    model = Line()
    trainer = Trainer(model, settings(learning_rate=0.1, weight_decay=0.0, schedule="constant", gradient_clip=1e6))
    losses = [trainer.step(data()).loss.item() for _ in range(100)]
    assert losses[0] == pytest.approx(9 * data()[0].square().mean().item())
    assert model.w.item() == pytest.approx(3, abs=0.1)
    assert trainer.steps == 100
    assert model.states == [None] * 100
    assert Trainer(model, settings(ema_decay=0)).result is model


def test_trainer_carries_the_state_without_gradient() -> None:
    model = Line()
    trainer = Trainer(model, settings(tbptt_segments=2))
    for _ in range(3):
        trainer.step(data())
    assert model.states[0] is None
    assert [state[0].item() for state in model.states[1:]] == [1, 2]
    assert not any(state[0].requires_grad for state in model.states[1:])


@pytest.mark.parametrize("clip", [0.0, 0.25, 1e9])
def test_gradient_clip_limits_the_norm_unless_zero_and_the_norm_before_it_is_returned(clip: float) -> None:
    """With SGD, because the length of Adam's first step does not depend on the gradient's scale."""
    model = Line()
    trainer = Trainer(model, settings(gradient_clip=clip))
    trainer.optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, fused=True)]
    x, y = data()
    gradient = -2 * (x * y).mean().item()
    output = trainer.step((x, y))
    assert output.metrics["w"].item() == 0
    assert output.gradient_norm.item() == pytest.approx(abs(gradient))
    assert model.w.item() == pytest.approx(0.025 if clip == 0.25 else -0.1 * gradient, rel=1e-4)


@pytest.mark.parametrize("decay", [0.5, 0.99])
def test_ema_is_an_exponential_moving_average_with_growing_decay(decay: float) -> None:
    """Against the recursion in Python floats: decay min(d, (1 + t) / (10 + t)), starting at the initial weights."""
    model = Line()
    trainer = Trainer(model, settings(ema_decay=decay, learning_rate=0.1))
    average = 0.0
    for t in range(1, 41):
        trainer.step(data())
        d = min(decay, (1 + t) / (10 + t))
        average = d * average + (1 - d) * model.w.item()
    assert trainer.result is not model
    assert trainer.result.w.item() == pytest.approx(average, rel=1e-5)
    assert model.w.item() != pytest.approx(average, rel=1e-3)


class Counting(Line):
    """Also counts its batches in a buffer, and keeps the last inputs in another one, which is empty at first."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.empty(0), persistent=False)

    def forward(self, batch: tuple[Tensor, Tensor], state: State | None = None) -> TrainingOutput:
        self.count += 1
        self.seen = batch[0]
        return super().forward(batch, state)


def test_ema_copies_the_buffers_of_the_trained_module() -> None:
    trainer = Trainer(Counting(), settings(ema_decay=0.9))
    for _ in range(3):
        trainer.step(data())
    trained = trainer.result
    assert trained.count.item() == 3
    assert torch.equal(trained.seen, data()[0])
    kept = trained.count
    trainer.step(data())
    assert trainer.result.count.item() == trainer.model.count.item() == 4
    assert kept is trainer.result.count
    assert trainer.result.w.item() != trainer.model.w.item()


def configure(*arguments: str) -> RunConfig:
    small = ["--backbone.width", "16", "--training.context", "8", "--training.batch_size", "4"]
    return parse_run("test", ["hopper-medium", *small, *arguments])[0]


def test_trainer_with_distributed_data_parallel_takes_the_same_steps(store: EpisodeStore, tmp_path: Path) -> None:
    """With one process, its steps are those of the bare agent."""
    agent, trainer, stream = prepare(configure(), store, 100.0)
    twin, _, _ = prepare(configure(), store, 100.0)
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        wrapped = Trainer(nn.parallel.DistributedDataParallel(twin), configure().training)
        for _ in range(3):
            batch = stream.sample()
            assert trainer.step(batch)[0] == wrapped.step(batch)[0]
    finally:
        distributed.destroy_process_group()
    for one, other in zip(agent.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["mlp", "mingru", "lru", "transformer"])
def test_autograd_copies_nothing_for_values_written_into_a_view(name: str, store: EpisodeStore) -> None:
    """As for an in-place ReLU after a linear layer, whose output of three dimensions is a view: its backward pass fills
    and copies five more tensors of full size."""
    agent, _, stream = prepare(configure("--backbone", name), store, 100.0)
    nodes, waiting = set(), [agent(stream.sample()).loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            waiting += [following for following, _ in node.next_functions]
    assert len(nodes) > 50
    assert not [node for node in nodes if "CopySlices" in node.name()]
