"""Training: the loop, its precision and schedule, and how a killed run goes on."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from decision_rnn.agent import DecisionAgent, optimizer_groups
from decision_rnn.backbones import State, count_parameters
from decision_rnn.checkpoint import (
    Provenance,
    TrainedAgent,
    last_checkpoint,
    load_agent,
    load_training_state,
    save_checkpoint,
)
from decision_rnn.config import RunConfig, TrainingConfig
from decision_rnn.data.actions import check_actions
from decision_rnn.data.catalog import resolve
from decision_rnn.data.spec import seen_numbers
from decision_rnn.data.store.episodes import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.errors import InputError
from decision_rnn.machine import keep_freed_memory
from decision_rnn.training.run_folder import MetricsLog, begin_run_folder, check_new_run, check_resumed_run


class Trainer:
    """An agent, its optimiser and its data: everything that changes from step to step."""

    def __init__(self, config: RunConfig, store: EpisodeStore, return_scale: float) -> None:
        settings = config.training
        self.device = pick_device(settings.device)
        if self.device.type == "cpu":
            keep_freed_memory()
        seen = seen_numbers(config.observation.mask, store.environment_id)
        torch.manual_seed(config.seed)
        self.agent = DecisionAgent(
            config.agent,
            config.backbone,
            torch.from_numpy(store.observation_mean[:seen]),
            torch.from_numpy(store.observation_std[:seen]),
            store.action_dim,
            return_scale,
        ).to(self.device)
        self.parameters = [p for p in self.agent.parameters() if p.requires_grad]
        groups = optimizer_groups(self.agent, settings.learning_rate, settings.weight_decay, settings.recurrent_rate)
        self.optimizer = torch.optim.AdamW(groups, fused=True)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, learning_rate_factor(settings))
        self.stream = StepStream(
            store,
            settings.context,
            settings.batch_size,
            config.seed,
            self.device,
            seen,
            settings.carry,
            clip_actions=config.actions == "clip",
        )
        self.carried: State | None = None
        self.gradient_clip = settings.gradient_clip
        self.bf16 = settings.precision == "bf16" or (settings.precision == "auto" and multiplies_bf16(self.device))
        self.step = 0

    def train_step(self) -> tuple[Tensor, Tensor]:
        """One optimiser step; returns the loss and the gradient's norm before clipping."""
        batch = self.stream.sample()
        with self._precision():
            loss, state = self.agent.loss(**batch._asdict(), state=self.carried)
        if self.stream.carry > 1:
            self.carried = tuple(part.detach() for part in state)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.gradient_clip)
        self.optimizer.step()
        self.schedule.step()
        self.step += 1
        return loss.detach(), norm

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs beside the weights, in tensors and plain types."""
        state = {
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "stream": self.stream.state_dict(),
            "random": torch.get_rng_state(),
            "step": self.step,
        }
        if self.carried is not None:
            state["carried"] = self.carried
        if self.device.type == "cuda":
            state["random_cuda"] = torch.cuda.get_rng_state()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken; the weights come from the checkpoint's own file."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.stream.load_state_dict(state["stream"])
        if "carried" in state:
            self.carried = tuple(part.to(self.device) for part in state["carried"])
        torch.set_rng_state(state["random"])
        if self.device.type == "cuda" and "random_cuda" in state:  # it may have begun where there was no GPU
            torch.cuda.set_rng_state(state["random_cuda"])
        self.step = state["step"]

    def _precision(self) -> AbstractContextManager[None]:
        return torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()


def train(config: RunConfig, run: Path, resume: bool = False) -> TrainedAgent:
    """Train an agent from start to end, or on from the last checkpoint; its size is printed first.

    Args:
        config: What to train.
        run: The run's folder: config.yaml, metrics.jsonl, TensorBoard events, checkpoints.
        resume: Go on with the run in that folder, to the same bits as if it had never stopped.

    Returns:
        The agent of the last step.

    Raises:
        InputError: If the dataset or the run's folder cannot be used, or a checkpoint cannot be written.
    """
    dataset = resolve(config.dataset, config.path, config.partial)
    spec = dataset.spec  # a name that nobody knows is told now
    # Before the data, which may take minutes to make.
    if resume:
        check_resumed_run(config, run)
    else:
        check_new_run(run)
    store = dataset.open()
    check_actions(store, config.actions)
    spec = dataset.spec  # once more: it tells what the store holds
    if not resume:
        begin_run_folder(config, run)
    provenance = Provenance.of(spec, store)
    trainer = Trainer(config, store, spec.return_scale)
    seconds = _resume(trainer, run, store) if resume else 0.0
    log = MetricsLog(run, trainer.step, seconds)
    print(_describe(trainer.agent, config), flush=True)  # before hours of training, not after them
    settings = config.training
    bar = tqdm(
        total=settings.steps, initial=trainer.step, desc=f"training {config.backbone.name}", unit="step", disable=None
    )
    losses = []
    with bar, log:
        while trainer.step < settings.steps:
            loss, norm = trainer.train_step()
            losses.append(loss)
            bar.update()
            last = trainer.step == settings.steps
            if last or trainer.step % settings.log_every == 0:
                mean = torch.stack(losses).mean().item()
                losses.clear()
                if not math.isfinite(mean):
                    raise InputError(
                        f"the loss is {mean} at step {trainer.step} of {run}: lower training.learning_rate or train "
                        "with training.precision fp32"
                    )
                rate = float(trainer.schedule.get_last_lr()[0])
                log.write(trainer.step, loss=mean, gradient_norm=norm.item(), learning_rate=rate)
                bar.set_postfix(loss=f"{mean:.4f}")
            if last or trainer.step % settings.checkpoint_every == 0:
                current = TrainedAgent(trainer.agent, config, provenance, trainer.step, log.elapsed())
                save_checkpoint(run, current, trainer.state_dict())
    return TrainedAgent(trainer.agent.eval(), config, provenance, trainer.step, log.elapsed())


def _describe(agent: DecisionAgent, config: RunConfig) -> str:
    """The agent's size in one line."""
    backbone = config.backbone
    return (
        f"{backbone.name}, {backbone.layers} layers of width {backbone.width}: {count_parameters(agent):,} parameters, "
        f"{count_parameters(agent.backbone):,} of them in the backbone"
    )


def _resume(trainer: Trainer, run: Path, store: EpisodeStore) -> float:
    """Bring the trainer to the run's last checkpoint; returns the seconds of training it took to get there."""
    if not (run / "checkpoints").is_dir():
        return 0.0  # killed before its first checkpoint
    folder = last_checkpoint(run)
    saved = load_agent(folder)
    if saved.provenance.fingerprint != store.fingerprint:
        raise InputError(
            f"{run} was trained on other contents of {saved.provenance.spec.name} (fingerprint "
            f"{saved.provenance.fingerprint[:12]}, now {store.fingerprint[:12]}): train it anew elsewhere"
        )
    trainer.agent.load_state_dict(saved.agent.state_dict())
    trainer.load_state_dict(load_training_state(folder))
    return saved.seconds


def learning_rate_factor(settings: TrainingConfig) -> Callable[[int], float]:
    """The schedule: a linear rise over the warm-up, then cosine to zero or constant, as a factor of the rate."""

    def factor(step: int) -> float:
        if step < settings.warmup_steps:
            return (step + 1) / settings.warmup_steps
        if settings.schedule == "constant":
            return 1.0
        progress = (step - settings.warmup_steps) / max(1, settings.steps - settings.warmup_steps)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))

    return factor


def pick_device(name: str) -> torch.device:
    """The device that `training.device` asks for; InputError if there is none."""
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("training.device is cuda, but torch sees no CUDA device: use cpu or auto")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def multiplies_bf16(device: torch.device) -> bool:
    """Whether the processor multiplies bf16 itself: elsewhere bf16 is emulated and slower than fp32."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    # A training step in bf16 takes 0.6 of one in fp32 by AMX as by AVX512-BF16 (minGRU, width 128).
    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
