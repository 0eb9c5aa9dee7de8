"""The training loop: from a run's configuration to its last checkpoint, with resumption of interrupted runs."""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from decision_rnn.agent import DecisionAgent
from decision_rnn.backbones import count_parameters
from decision_rnn.checkpoint import (
    TrainedAgent,
    has_checkpoint,
    last_checkpoint,
    link_last,
    load_agent,
    load_training_state,
    save_checkpoint,
)
from decision_rnn.config import RunConfig, TrainingConfig
from decision_rnn.data.actions import check_actions
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.spec import observation_index
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.store.selection import top_episodes
from decision_rnn.data.stream import StepStream
from decision_rnn.data.summary import DataSummary
from decision_rnn.errors import InputError
from decision_rnn.messages import bar, tell
from decision_rnn.training.run_folder import MetricsLog, alone_in, begin_run_folder, check_new_run, check_resumed_run
from decision_rnn.training.trainer import Trainer

Callback = Callable[[int, dict[str, float], TrainedAgent], object]
"""`callback(step, metrics, agent)`; training stops after the step for which it returns False."""


def prepare(
    config: RunConfig, store: EpisodeStore, return_scale: float
) -> tuple[DecisionAgent, Trainer[DecisionAgent], StepStream]:
    """A new agent, its trainer and its stream of batches, from the run's seed.

    Args:
        config: The run's configuration.
        store: The data.
        return_scale: The divisor of returns-to-go.
    """
    index = observation_index(config.observation.mask, store.environment_id)
    seen = slice(None) if index is None else index
    quantile = config.agent.return_limit if config.agent.return_conditioning else 0
    torch.manual_seed(config.seed)
    agent = DecisionAgent(
        config.agent,
        config.backbone,
        torch.from_numpy(store.observation_mean[seen]),
        torch.from_numpy(store.observation_std[seen]),
        store.action_dim,
        return_scale,
        config.objective,
        None if index is None else torch.from_numpy(index),
        torch.from_numpy(store.returns_to_go_quantile(quantile)) if quantile > 0 else None,
    )
    settings = config.training
    trainer = Trainer(agent, settings)
    stream = StepStream(
        store,
        settings.context,
        settings.batch_size,
        config.seed,
        trainer.device,
        tbptt_slices=settings.carry or 1,
        clip_actions=config.actions == "clip",
        return_weighting=settings.return_weighting,
    )
    return agent, trainer, stream


def train(
    config: RunConfig,
    run: Path,
    resume: bool = False,
    on_checkpoint: Callable[[TrainedAgent], None] | None = None,
    on_steps: Callable[[int], None] | None = None,
    on_data: Callable[[DataSummary, EpisodeStore], None] | None = None,
    callback: Callback | None = None,
) -> TrainedAgent:
    """Train an agent from scratch or from the last checkpoint; prints the agent's size first.

    Args:
        config: The run's configuration.
        run: The run folder: config.yaml, metrics.jsonl, TensorBoard events, checkpoints.
        resume: Resume the run in that folder; the result is bit for bit that of an uninterrupted run.
        on_checkpoint: Called with a copy of the agent, in evaluation mode, after each checkpoint is written, and for
            the one that a resumed run starts from, since the process may have been killed before the call. Its time
            does not count as training time, and it does not affect training.
        on_steps: Called with the number of steps taken, before the first step and whenever metrics are logged.
        on_data: Called before the first step with the provenance of the data and the episodes that are trained on.
        callback: Called whenever metrics are logged, with the step, the metrics and a copy of the agent. If it returns
            False, training stops after that step with a checkpoint, from which the run can be resumed.

    Returns:
        The agent after the last step.

    Raises:
        InputError: If the dataset or the run folder cannot be used, a checkpoint cannot be written, or another process
            is training in that folder.
        KeyboardInterrupt: On Ctrl-C; the message gives the step reached and the step from which the run resumes.
    """
    with alone_in(run):
        return _train(config, run, resume, on_checkpoint, on_steps, on_data, callback)


def _train(
    config: RunConfig,
    run: Path,
    resume: bool,
    on_checkpoint: Callable[[TrainedAgent], None] | None,
    on_steps: Callable[[int], None] | None,
    on_data: Callable[[DataSummary, EpisodeStore], None] | None,
    callback: Callback | None,
) -> TrainedAgent:
    dataset = open_dataset(config.dataset, config.path, config.partial)
    spec = dataset.spec  # raises now if the name is unknown
    # Checked before the data are opened, since making them may take minutes.
    if resume:
        config = check_resumed_run(config, run)
    else:
        _check_warmup(config.training)
        check_new_run(run)
    store = dataset.open()
    check_actions(store, config.actions)
    spec = dataset.spec  # read again: it may depend on the contents of the opened store
    seen = top_episodes(store, config.best_fraction)
    _check_best(config, store, seen)
    provenance = DataSummary.from_store(spec, store)
    agent, trainer, stream = prepare(config, seen, spec.return_scale)
    if not resume:
        begin_run_folder(config, run)  # after all checks: a folder that holds a run accepts no other run
    seconds, losses = _resume(trainer, stream, run, store) if resume else (0.0, [])
    log = MetricsLog(run, trainer.steps, seconds)
    tell(_describe(agent, config, store, seen))
    if on_data is not None:
        on_data(provenance, seen)
    settings = config.training
    shown = bar(total=settings.steps, initial=trainer.steps, desc=f"training {config.backbone.name}", unit="step")

    def show_agent(look: Callable[[TrainedAgent], object]) -> object:
        """Call `look` with a copy of the agent and return its result."""
        seconds = log.elapsed()
        with log.paused(), torch.random.fork_rng():
            unchanged = copy.deepcopy(trainer.result).eval()
            return look(TrainedAgent(unchanged, config, provenance, trainer.steps, seconds))

    with shown, log, _interruption_explained(trainer, run):
        if on_steps is not None:
            on_steps(trainer.steps)
        if on_checkpoint is not None and trainer.steps > 0:
            show_agent(on_checkpoint)
        stopped = False
        while trainer.steps < settings.steps and not stopped:
            rate = float(trainer.schedule.get_last_lr()[0])
            loss, norm = trainer.step(stream.sample())
            losses.append(loss)
            shown.update()
            last = trainer.steps == settings.steps
            logs = last or trainer.steps % settings.log_every == 0
            saves = last or trainer.steps % settings.checkpoint_every == 0
            if logs or saves:
                mean = _finite_mean(losses, trainer, run)
            if logs:
                losses.clear()
                metrics = log.write(trainer.steps, loss=mean, gradient_norm=norm.item(), learning_rate=rate)
                shown.set_postfix(loss=f"{mean:.4f}")
                if on_steps is not None:
                    on_steps(trainer.steps)
                if callback is not None:
                    answer = show_agent(partial(callback, trainer.steps, metrics))
                    stopped = isinstance(answer, bool | np.bool_) and not answer  # the latter from comparing arrays
            if saves or stopped:
                current = TrainedAgent(trainer.result, config, provenance, trainer.steps, log.elapsed())
                state = {"stream": stream.state_dict(), "losses": torch.stack(losses) if losses else torch.empty(0)}
                save_checkpoint(run, current, {**trainer.state_dict(), **state})
                if on_checkpoint is not None:
                    show_agent(on_checkpoint)
    return TrainedAgent(trainer.result.eval(), config, provenance, trainer.steps, log.elapsed())


def _finite_mean(losses: list[Tensor], trainer: Trainer[DecisionAgent], run: Path) -> float:
    """The mean loss; InputError unless it and the weights are finite, so that no good checkpoint is replaced."""
    mean = torch.stack(losses).mean().item()
    weights = torch.stack([parameter.isfinite().all() for parameter in trainer.result.parameters()]).all()
    if math.isfinite(mean) and weights:
        return mean
    found = "the weights are not finite" if math.isfinite(mean) else f"the loss is {mean}"
    kept = f"; the checkpoint of step {last_checkpoint(run).name} is intact" if has_checkpoint(run) else ""
    raise InputError(
        f"{found} at step {trainer.steps} of {run}: lower training.learning_rate or train with training.precision "
        f"fp32{kept}"
    )


@contextmanager
def _interruption_explained(trainer: Trainer[DecisionAgent], run: Path) -> Iterator[None]:
    """Make a KeyboardInterrupt say how to resume: in a notebook its message is all that the user sees."""
    try:
        yield
    except KeyboardInterrupt:
        kept = last_checkpoint(run).name if has_checkpoint(run) else "0"
        raise KeyboardInterrupt(
            f"interrupted at step {trainer.steps}; the run in {run} is intact and goes on from step {kept} with "
            "--resume, in Python by resume=True"
        ) from None


def _describe(agent: DecisionAgent, config: RunConfig, store: EpisodeStore, seen: EpisodeStore) -> str:
    """Lines with the agent's size, its steps and warm-up, and the episodes it is trained on if not all of them."""
    backbone, training = config.backbone, config.training
    best = (
        f"\nof {store.episodes:,} episodes the best {seen.episodes:,} are trained on, {seen.steps:,} of "
        f"{store.steps:,} steps; their returns are {seen.episode_returns.min():g} and above"
    )
    return (
        f"{backbone.name}, {backbone.layers} layers of width {backbone.width}: {count_parameters(agent):,} parameters, "
        f"{count_parameters(agent.backbone):,} of them in the backbone\n"
        f"{training.steps:,} training steps; the learning rate warms up over the first {training.warmup_steps:,}"
        f"{best if seen is not store else ''}"
    )


def _check_best(config: RunConfig, store: EpisodeStore, seen: EpisodeStore) -> None:
    """InputError if the best episodes are too short for one slice; for all episodes, the stream checks this itself."""
    if seen is not store and seen.steps < config.training.context:
        raise InputError(
            f"best_fraction {config.best_fraction} leaves {seen.episodes} of {store.episodes} episodes of "
            f"{config.dataset} with {seen.steps} steps in all, fewer than training.context {config.training.context}: "
            "raise best_fraction or lower training.context"
        )


def _check_warmup(settings: TrainingConfig) -> None:
    """InputError if the learning rate would never reach its peak, which is hardly intended."""
    if settings.warmup_steps is not None and settings.warmup_steps > settings.steps:
        raise InputError(
            f"training.warmup_steps {settings.warmup_steps} is more than training.steps {settings.steps}: "
            f"give fewer, or leave it out for {TrainingConfig(steps=settings.steps).warmup_steps}"
        )


def _resume(
    trainer: Trainer[DecisionAgent], stream: StepStream, run: Path, store: EpisodeStore
) -> tuple[float, list[Tensor]]:
    """Restore trainer and stream from the run's last checkpoint; returns the training time so far, in seconds, and the
    losses since the last line of metrics, if the checkpoint has them."""
    if not has_checkpoint(run):
        return 0.0, []  # killed before its first checkpoint
    folder = last_checkpoint(run)
    saved = load_agent(folder)
    saved.provenance.check_contents(store, run, "train it again in another folder")
    trainer.result.load_state_dict(saved.agent.state_dict())
    state = load_training_state(folder)
    trainer.load_state_dict(state)
    stream.load_state_dict(state["stream"])
    try:
        link_last(folder)  # the run was killed before linking it, or a damaged newer checkpoint was deleted
    except OSError as error:
        raise InputError(f"cannot write into {folder.parent}: {error.strerror}; the run is intact") from None
    return saved.seconds, list(state.get("losses", torch.empty(0)).to(trainer.device))
