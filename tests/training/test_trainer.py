"""`Trainer`: training steps of any module that returns its loss and a state."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from decision_rnn.agent import TrainingOutput
from decision_rnn.backbones import State
from decision_rnn.config import TrainingConfig
from decision_rnn.training.device import autocast
from decision_rnn.training.trainer import Trainer


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
    trainer = Trainer(model, settings(), lambda rows: (torch.zeros(()),))
    for _ in range(3):
        trainer.step(data())
    assert model.states[0] is None
    assert [state[0].item() for state in model.states[1:]] == [1, 2]
    assert not any(state[0].requires_grad for state in model.states[1:])


@pytest.mark.parametrize("clip", [0.0, 0.25, 1e9])
def test_gradient_norm_is_limited_unless_zero_and_returned(clip: float) -> None:
    """With SGD, because the length of Adam's first step does not depend on the gradient's scale."""
    model = Line()
    trainer = Trainer(model, settings(gradient_clip=clip))
    trainer.optimizers = [torch.optim.SGD([{"params": [*model.parameters()], "initial_lr": 0.1}], lr=0.1)]
    x, y = data()
    gradient = -2 * (x * y).mean().item()
    output = trainer.step((x, y))
    assert output.metrics["w"].item() == 0
    assert output.gradient_norm.item() == pytest.approx(abs(gradient))
    assert model.w.item() == pytest.approx(0.025 if clip == 0.25 else -0.1 * gradient, rel=1e-4)


@pytest.mark.parametrize("decay", [0.5, 0.99])
def test_ema_is_an_exponential_moving_average_with_growing_decay(decay: float) -> None:
    """Against the recursion in Python floats: decay min(d, (1 + t) / (10 + t)), starting at the initial weights."""
    model, alone = Line(), Line()
    trainer = Trainer(model, settings(ema_decay=decay, learning_rate=0.1))
    other = Trainer(alone, settings(ema_decay=0, learning_rate=0.1))
    average = 0.0
    for t in range(1, 41):
        trainer.step(data())
        other.step(data())
        d = min(decay, (1 + t) / (10 + t))
        average = d * average + (1 - d) * model.w.item()
    assert trainer.result is not model
    assert alone.w.item() == model.w.item()
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


class Memory(nn.Module):
    """Its state is the last input of each row, which its loss reads unless the row is reset."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))
        self.remembered: list[list[float]] = []

    def forward(self, batch: tuple[Tensor, Tensor], state: State | None = None) -> TrainingOutput:
        x, reset = batch
        before = torch.zeros(len(x)) if state is None else state[0]
        before = torch.where(reset, torch.zeros(()), before)
        self.remembered.append(before.tolist())
        return TrainingOutput((self.w * (x + before)).square().mean(), {}, (x,))


def test_rows_that_restarted_in_a_skipped_step_keep_no_state() -> None:
    """The second row restarts in the batch that is skipped: its state from before belongs to another episode."""
    model = Memory()
    trainer = Trainer(model, settings(), lambda rows: (torch.zeros(rows),))
    nowhere, second = torch.tensor([False, False]), torch.tensor([False, True])
    trainer.step((torch.tensor([1.0, 2.0]), nowhere))
    weight = model.w.item()
    skipped = trainer.step((torch.tensor([3.0, math.nan]), second))
    assert skipped.skipped
    assert math.isnan(skipped.loss)
    assert model.w.item() == weight
    trainer.step((torch.tensor([5.0, 6.0]), nowhere))
    assert model.remembered == [[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("fault", ["loss", "gradient"])
def test_skipped_step_changes_no_weight_average_or_optimizer(fault: str) -> None:
    model = Line()
    trainer = Trainer(model, settings(ema_decay=0.9, learning_rate=0.1))
    trainer.step(data())
    (optimizer,) = trainer.optimizers
    before = copy.deepcopy((model.state_dict(), trainer.result.state_dict(), optimizer.state_dict()["state"]))
    x, y = data()
    hook = model.w.register_hook(lambda gradient: gradient * (math.nan if fault == "gradient" else 1))
    trainer.step((x, y * (math.nan if fault == "loss" else 1)))
    hook.remove()
    after = model.state_dict(), trainer.result.state_dict(), optimizer.state_dict()["state"]
    assert str(after) == str(before)
    assert (trainer.steps, trainer.skipped_in_a_row) == (2, 1)
    assert not trainer.step(data()).skipped
    assert trainer.skipped_in_a_row == 0


def test_float32_on_cuda_is_not_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch, "autocast", lambda *arguments, **options: None)  # which warns without a GPU
    with torch.backends.cudnn.flags(allow_tf32=True):
        autocast(settings(), torch.device("cuda"))
        assert not torch.backends.cudnn.allow_tf32


def test_learning_rate_warms_up_then_falls_along_a_cosine() -> None:
    def rates(**options: object) -> list[float]:
        trainer = Trainer(Line(), settings(**options))
        return [trainer.step(data()).learning_rate for _ in range(100)]

    cosine = rates(warmup_steps=10, learning_rate=1.0)
    assert [cosine[0], cosine[4], cosine[9]] == pytest.approx([0.1, 0.5, 1.0])
    assert [cosine[40], cosine[55]] == pytest.approx([(1 + math.cos(math.pi / 3)) / 2, 0.5])
    assert cosine[99] == pytest.approx((1 + math.cos(math.pi * 89 / 90)) / 2)
    assert max(rates(warmup_steps=None)) == pytest.approx(1e-3)  # a quarter of the steps
    assert set(rates(schedule="constant", learning_rate=0.5)) == {0.5}
