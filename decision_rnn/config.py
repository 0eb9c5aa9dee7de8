"""The configuration of a run: a tree of frozen dataclasses, saved in full with every run.

config_parser.py reads it from files, checkpoints and command lines. Neither imports torch, so that help, completion
and errors in keys do not wait for it.
"""

from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal

from msgspec import Meta

from decision_rnn.agent.config import (
    CONDITIONS,
    AgentConfig,
    ConditionConfig,
    ObjectiveConfig,
    ReturnToGoConfig,
    SupervisedConfig,
)
from decision_rnn.backbones.config import BackboneConfig
from decision_rnn.backbones.time_scales import outlasts
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import BEST, NonNegativeFloat, NonNegativeInt, PositiveInt, TargetReturn

LEARNING_RATES = {"adamw": 1e-3, "muon": 4e-3}
"""Default learning rates."""
WARMUP_STEPS = 500
"""Default number of warm-up steps in runs of at least 2,000 steps."""
DEFAULT_TBPTT_SEGMENTS = 50
"""Default `tbptt_segments` where the state outlasts a segment: 1,000 steps at the default context."""
DEFAULT_GOAL_DISCOUNT = 0.99
"""Default `goal_discount` where agents are asked for few steps: trained on goals anywhere later in long episodes, they
succeed a fifth as often on OGBench's cube and scene (results/ogbench-narrow)."""


@dataclass(frozen=True, kw_only=True)
class ObservationConfig:
    """What the agent sees of an observation, both in training and in the environment.

    Attributes:
        mask: What is hidden: `none`, or the `velocity` of every joint (MuJoCo bodies), which the agent must then infer
            from earlier steps.
    """

    mask: Literal["none", "velocity"] = "none"


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How the agent is trained.

    Attributes:
        steps: Optimiser steps.
        batch_size: Segments per step.
        context: Environment steps per segment.
        tbptt_segments: Number of consecutive segments that a row of the batch reads, on average, before it restarts at
            a random place. The state is carried from one segment to the next, the gradient is not (truncated
            backpropagation through time). 1: every segment starts from the initial state. If left out, 50 where the
            state outlasts a segment (`backbone.memory` is `context` or more; aaren's never fades), since an agent acts
            with a state carried over an episode; 1 otherwise.
        segment_start: Where segments begin: `anywhere` in the data, or with an `episode`, so that an episode of up to
            `context` steps is in one segment.
        goal_relabeling: Which goals the agent is given in observations that have a `desired_goal`: `none` for those of
            the data, or `hindsight` for what the episode went on to reach (`achieved_goal`). Rewards are for the goals
            of the data, so with `hindsight` a return-to-go is minus the number of steps until the goal, and `best` asks
            at every step to reach it as soon as the data do; `condition none` clones.
        goal_discount: How far ahead goals in hindsight lie: 1 draws them from all later steps of the episode alike, g
            below 1 k steps ahead with a probability proportional to g^(k - 1), a mean of 1 / (1 - g) steps in episodes
            that are much longer. If left out, 0.99 where agents are asked for few steps, and 1 where they clone.
        p_randomgoal: The share of goals in hindsight that are what any episode of the data reaches at any of its steps,
            OGBench's `actor_p_randomgoal`: goals that the actions shown do not lead to.
        optimizer: `adamw`, or `muon` for the matrices of the backbone and AdamW for all else, which needs a quarter of
            the `steps`. If left out of a file, a command line or a call, `muon` where agents are asked to reach goals
            in few steps (`goal_relabeling`), which takes long to learn, and else `adamw`.
        learning_rate: Peak learning rate; if left out, 1e-3 with `adamw` and 4e-3 with `muon`, whose updates are as
            large as AdamW's at the same rate.
        recurrent_rate: Learning rate of a recurrence's own parameters, as a multiple of `learning_rate`; if left out,
            the backbone's default: lru 0.5, s4d at most 1e-3 / learning_rate, all others 1.
        weight_decay: Weight decay, applied to weight matrices only.
        ema_decay: Decay of an exponential moving average of the weights; the average is saved and evaluated. 0 for the
            weights of the last step.
        return_weighting: How strongly sampling favours segments of better episodes: every step of an episode has weight
            exp(return_weighting * g), where g is the episode's return, scaled to 0 for the lowest in the data and 1
            for the highest. 0: uniform sampling.
        warmup_steps: Steps over which the rate rises from zero; if left out, a quarter of `steps`, at most 500.
        schedule: Learning rate after the warm-up: `cosine` decay to zero at the last step, or `constant`.
        gradient_clip: Largest global norm of the gradient; 0 for no clipping.
        precision: Precision of matrix products: `bf16`, `fp32`, or `auto`, bf16 if the processor supports it natively.
        device: `cpu`, `cuda`, or `auto`, cuda if available.
        processes: How many processes share every batch, each with its part of the cores, or with a GPU of its own; the
            losses are those of one process within rounding. `torchrun` starts them itself.
        checkpoint_every: Steps between checkpoints.
        log_every: Steps between lines of metrics.
    """

    steps: PositiveInt = 2_000
    batch_size: PositiveInt = 128
    context: PositiveInt = 20
    tbptt_segments: PositiveInt | None = None
    segment_start: Literal["anywhere", "episode"] = "anywhere"
    goal_relabeling: Literal["none", "hindsight"] = "none"
    goal_discount: Annotated[float, Meta(gt=0, le=1)] | None = None
    p_randomgoal: Annotated[float, Meta(ge=0, le=1)] = 0.0
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: NonNegativeFloat | None = None
    recurrent_rate: NonNegativeFloat | None = None
    weight_decay: NonNegativeFloat = 1e-4
    ema_decay: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    return_weighting: Annotated[float, Meta(ge=0, le=100)] = 0.0
    warmup_steps: NonNegativeInt | None = None
    schedule: Literal["cosine", "constant"] = "cosine"
    gradient_clip: NonNegativeFloat = 0.25
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    processes: PositiveInt = 1
    checkpoint_every: PositiveInt = 1_000
    log_every: PositiveInt = 100

    def __post_init__(self) -> None:
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", LEARNING_RATES[self.optimizer])
        if self.warmup_steps is None:
            object.__setattr__(self, "warmup_steps", min(WARMUP_STEPS, self.steps // 4))
        elif self.warmup_steps > self.steps:  # the learning rate would never reach its peak
            raise InputError(
                f"training.warmup_steps {self.warmup_steps} is more than training.steps {self.steps}: give fewer, or "
                "leave it out"
            )
        if self.batch_size % self.processes:
            raise InputError(
                f"training.processes {self.processes} does not divide training.batch_size {self.batch_size}: all have "
                "equal shares of it"
            )
        for key, without in (("goal_discount", (None, 1)), ("p_randomgoal", (0,))):
            if getattr(self, key) not in without and self.goal_relabeling != "hindsight":
                raise InputError(
                    f"training.{key} is {getattr(self, key)}, but training.goal_relabeling is {self.goal_relabeling}: "
                    "it is for goals in hindsight"
                )


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """How the agent is evaluated.

    Attributes:
        episodes: Episodes per target return; 0 for no evaluation after training.
        target_returns: Target returns, or `best` for as much as the condition's limit lets the agent see at every step;
            if left out, `best` and the dataset's own targets inside the data, or, without a limit, the dataset's own
            targets and the best return in the data.
        state: `recurrent` to carry the state over the whole episode, or `window` to re-run the last steps for every
            action, the Decision Transformer's protocol.
        window: Number of steps in the window.
        actions: `greedy` for the most probable discrete action or mode of `gaussian_mixture`, and the flow from zero of
            `flow_matching`, or `sampled` to draw it with its probability.
        seed: Episode i of every target return starts with the environment's reset(seed + i).
        max_episode_steps: Largest number of steps of an episode; if left out, the environment's own limit, or, if it is
            registered without one, that of the longest episode in the data.
        environment_id: The Gymnasium id of the environment to play in, if it is not that of the data. It must have the
            same observations and actions, such as a longer version of the task; references and target returns stay
            those of the data.
        metrics: What is measured in every episode besides its return: `success`, or metrics that a plugin registers.
        checkpoint_episodes: Episodes with which every checkpoint is evaluated during training, at the first target
            return and at the best in the data; 0 for none.
    """

    episodes: NonNegativeInt = 100
    target_returns: Annotated[tuple[TargetReturn, ...], Meta(min_length=1)] | None = None
    state: Literal["recurrent", "window"] = "recurrent"
    window: PositiveInt = 20
    actions: Literal["greedy", "sampled"] = "greedy"
    seed: NonNegativeInt = 1_000_000
    max_episode_steps: PositiveInt | None = None
    environment_id: str | None = None
    metrics: tuple[str, ...] = ()
    checkpoint_episodes: NonNegativeInt = 0


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run.

    Attributes:
        dataset: A dataset's name, as in data/catalog.py.
        path: The file to read a dataset of D4RL or OGBench from, if it is not in one of the usual folders.
        partial: `keep` or `drop` episodes that break off, neither terminated nor truncated, such as the last one of
            D4RL's files.
        validation: A dataset of the same task, such as `ogbench/cube-single-play-v0-val`, that is not trained on: the
            loss on its episodes is logged with that of training, as `validation_loss`. Where the data name no
            environment, `compare` compares variants by their losses on it.
        top_fraction: Fraction of the episodes to train on, those with the highest returns, rounded down but at least
            one episode. With `condition none` this is filtered behaviour cloning. Scores are still
            reported beside the mean and the range of all episodes.
        plugins: Modules that were imported first: those that register backbones, objectives, sources of datasets or
            environments.
        seed: Seed of the weights' initialisation, the sampled segments and dropout.
        init_from: An agent whose weights training starts from, by any of its names, such as the folder of a run. Its
            architecture (backbone, observation, condition, agent and objective) is the default, and its normalisation
            of observations and returns and its action box are kept, so that the agent first acts as it did before.
        backbone: The sequence backbone; `--backbone NAME` selects it, `--backbone.KEY` sets its options.
        observation: What the agent sees of an observation.
        condition: What the agent is conditioned on; `--condition NAME` selects it, `--condition.KEY` sets its options.
            `none` is behaviour cloning.
        agent: How histories become tokens.
        objective: The training objective; `--objective NAME` selects it, `--objective.KEY` sets its options. If left
            out of a file, a command line or a call, `supervised`, or `gaussian_mixture` where agents are asked to reach
            goals in few steps (`training.goal_relabeling`).
        training: How the agent is trained.
        evaluation: How the agent is evaluated.
    """

    dataset: str
    path: str | None = None
    partial: Literal["keep", "drop"] = "keep"
    validation: str | None = None
    top_fraction: Annotated[float, Meta(gt=0, le=1)] = 1.0
    plugins: tuple[str, ...] = ()
    seed: NonNegativeInt = 0
    init_from: str | None = None
    backbone: BackboneConfig
    observation: ObservationConfig = field(default_factory=ObservationConfig)
    condition: ConditionConfig = field(default_factory=ReturnToGoConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    objective: ObjectiveConfig = field(default_factory=SupervisedConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        if self.training.tbptt_segments is None:
            segments = DEFAULT_TBPTT_SEGMENTS if outlasts(self.backbone, self.training.context) else 1
            object.__setattr__(self, "training", replace(self.training, tbptt_segments=segments))
        in_few_steps = self.training.goal_relabeling == "hindsight" and isinstance(self.condition, ReturnToGoConfig)
        if self.training.goal_discount is None:
            discount = DEFAULT_GOAL_DISCOUNT if in_few_steps else 1.0
            object.__setattr__(self, "training", replace(self.training, goal_discount=discount))
        if self.agent.condition_at is None:
            place: Literal["head", "token"] = "head" if in_few_steps else "token"
            object.__setattr__(self, "agent", replace(self.agent, condition_at=place))
        if isinstance(self.condition, ReturnToGoConfig):
            object.__setattr__(self, "condition", self.condition.completed(self.agent.condition_at == "head"))
        if self.training.goal_relabeling == "hindsight" and self.takes_target:
            self._check_steps_to_goals()

    def _check_steps_to_goals(self) -> None:
        """Raise InputError if goals in hindsight leave the condition without a return or a limit."""
        if not (isinstance(self.condition, ReturnToGoConfig) and self.condition.reach):
            raise InputError(
                f"training.goal_relabeling is hindsight, and condition {self.condition.name} at a "
                f"{self.agent.condition_at}: rewards are for the goals of the data, so leave agent.condition_at and "
                "condition.reach out, which asks for few steps until the goal, or set condition none"
            )
        if self.agent.goals_at == "head":
            raise InputError(
                "agent.goals_at is head, and condition return_to_go with goals in hindsight: how soon a goal can be "
                "reached is judged from a state that must know it, so leave agent.goals_at out, or set condition none"
            )
        if self.training.p_randomgoal:
            raise InputError(
                f"training.p_randomgoal is {self.training.p_randomgoal}, and condition return_to_go: the data do not "
                "say how soon a random goal is reached, so leave it out, or set condition none"
            )

    @property
    def takes_target(self) -> bool:
        """Whether episodes begin with a target return; false for behaviour cloning."""
        known = CONDITIONS.entries.get(self.condition.name)  # a policy's may be of a plugin that is not imported
        described: Any = self.condition if known is None else known.cls
        return bool(described.takes_target)

    @property
    def takes_return(self) -> bool:
        """Whether that target is a return of the data's episodes, not steps until a goal in hindsight."""
        return self.takes_target and self.training.goal_relabeling == "none"


DEFAULT_BACKBONE = "mingru"
DEFAULT_OBJECTIVE = SupervisedConfig().name
DEFAULT_CONDITION = ReturnToGoConfig().name


def to_dict(config: RunConfig) -> dict[str, Any]:
    """The full configuration as plain JSON values."""
    data = asdict(config)
    targets = config.evaluation.target_returns
    spelt = None if targets is None else ["best" if target == BEST else target for target in targets]
    data["evaluation"]["target_returns"] = spelt
    data["evaluation"]["metrics"] = list(config.evaluation.metrics)
    data["plugins"] = list(config.plugins)
    return data
