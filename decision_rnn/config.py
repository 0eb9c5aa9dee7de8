"""The configuration of a run: a tree of frozen dataclasses, validated by pydantic and saved in full with every run.

`from_dict` reads the nested dictionaries of YAML files and Python calls, in which a backbone, a condition or an
objective is a name, or a dictionary of options that includes `name`; `complete` adds the names that are left out.
Options that are None depend on others, or on the data, and are resolved where they are used, those of training by
properties (`RunConfig.resolved`).
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, SerializeAsAny

from decision_rnn.agent.conditions.base import CONDITIONS, ConditionConfig, NoConditionConfig
from decision_rnn.agent.conditions.return_to_go import ReturnToGoConfig
from decision_rnn.agent.conditions.subgoal import SubgoalConfig
from decision_rnn.agent.conditions.time_to_goal import TimeToGoalConfig
from decision_rnn.agent.network import AgentConfig
from decision_rnn.agent.objectives.action_chunk import ActionChunkConfig
from decision_rnn.agent.objectives.base import OBJECTIVES, ObjectiveConfig
from decision_rnn.agent.objectives.mse import MSEConfig
from decision_rnn.backbones import BACKBONES, BackboneConfig, match_parameters, memory_exceeds
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import FileName, Names, TargetReturns, config_dataclass, convert, suggest, to_json
from decision_rnn.utils.plugins import check_plugins
from decision_rnn.utils.registry import ClassRegistry

LEARNING_RATES = {"adamw": 1e-3, "muon": 4e-3}
"""Default learning rates."""


@config_dataclass
class ObservationConfig:
    """What the agent sees of an observation, both in training and in the environment.

    Attributes:
        mask: What is hidden: `none`, or the `velocity` of every joint (MuJoCo bodies), which the agent must then infer
            from earlier steps.
    """

    mask: Literal["none", "velocity"] = "none"


@config_dataclass
class TrainingConfig:
    """How the agent is trained.

    Attributes:
        steps: Optimiser steps.
        batch_size: Segments per step.
        context: Environment steps per segment.
        tbptt_segments: Number of consecutive segments that a row of the batch reads, on average, before it restarts at
            a random place. The state is carried from one segment to the next, the gradient is not (truncated
            backpropagation through time). 1: every segment starts from the initial state. Default: 50 where the state
            outlasts a segment (`backbone.init_half_life` is its number of tokens or more; aaren's never fades), else 1.
        segment_start: Where segments begin: `anywhere` in the data, or with an `episode`.
        goal_relabeling: Which goals the agent is given in observations that have a `desired_goal`: `none` for those of
            the data, or `hindsight` for what the episode went on to reach (`achieved_goal`).
        goal_discount: How far ahead goals in hindsight lie: 1 draws them from all later steps of the episode alike, g
            below 1 k steps ahead with a probability proportional to g^(k - 1). Default: 0.99 for agents conditioned on
            the time to a goal, 1 otherwise.
        p_swappedgoal: The probability that a goal in hindsight is swapped for what another episode goes on to reach
            that passes by it, and this again, to put parts of episodes together (Ghugare et al. 2024, who swap once).
        sensor_fault: What the agent sees at random spells of steps in place of observations, so that it learns to act
            through faults of a sensor: the last observation before (`freeze`), `zero` or standard normal `noise`.
        sensor_fault_rate: The probability that a fault begins at a step.
        sensor_fault_steps: The mean length of faults in steps. They end with their segment, so that `context` should be
            longer.
        optimizer: `adamw`, or `muon` for the matrices of the backbone and AdamW for all else. Default: `muon` for
            agents conditioned on the time to a goal, otherwise `adamw`.
        learning_rate: Peak learning rate. Default: 1e-3 with `adamw` and 4e-3 with `muon`.
        weight_decay: Weight decay, applied to weight matrices only.
        ema_decay: Decay of an exponential moving average of the weights; the average is saved and evaluated. 0 for the
            weights of the last step.
        warmup_steps: Steps over which the rate rises from zero. Default: a quarter of `steps`, at most 500.
        schedule: Learning rate after the warm-up: `cosine` decay to zero at the last step, or `constant`.
        early_stopping_patience: Number of lines of metrics in a row without a new lowest `validation_loss` after which
            training ends before its last step; 0 to train all steps. The schedule is that of all `steps`: a run that
            stops early on `cosine` has not come to its lowest rates.
        gradient_clip: Largest global norm of the gradient; 0 for no clipping.
        precision: Precision of matrix products: `bf16`, `fp32`, or `auto`, bf16 if the processor supports it natively.
            Without bf16, products are in full float32, on CUDA without TF32.
        device: `cpu`, `cuda`, or `auto`, cuda if available.
        cuda_graph: Whether a training step runs as one CUDA graph. `auto`: on CUDA, by one process and with `adamw`,
            unless the step reads from the GPU, as gru, lstm and rnn do over segments of more than 64 tokens.
        checkpoint_every: Steps between checkpoints. With `validation` there is one at every new lowest
            `validation_loss` too.
        checkpoint_minutes: Minutes since the last checkpoint after which another one is written. A run resumes from it;
            it is not evaluated. 0 for none.
        log_every: Steps between lines of metrics.
        loggers: Trackers to which metrics and scores are sent, beside `metrics.jsonl`: `tensorboard`, `trackio`,
            `wandb`, `mlflow`, and those that installed packages add; [] for none.
    """

    steps: PositiveInt = 2_000
    batch_size: PositiveInt = 128
    context: PositiveInt = 20
    tbptt_segments: PositiveInt | None = None
    segment_start: Literal["anywhere", "episode"] = "anywhere"
    goal_relabeling: Literal["none", "hindsight"] = "none"
    goal_discount: Annotated[float, Field(gt=0, le=1)] | None = None
    p_swappedgoal: Annotated[float, Field(ge=0, lt=1)] = 0.0
    sensor_fault: Literal["none", "freeze", "zero", "noise"] = "none"
    sensor_fault_rate: Annotated[float, Field(gt=0, le=1)] = 0.02
    sensor_fault_steps: PositiveInt = 10
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: NonNegativeFloat | None = None
    weight_decay: NonNegativeFloat = 1e-4
    ema_decay: Annotated[float, Field(ge=0, lt=1)] = 0.999
    warmup_steps: NonNegativeInt | None = None
    schedule: Literal["cosine", "constant"] = "cosine"
    early_stopping_patience: NonNegativeInt = 0
    gradient_clip: NonNegativeFloat = 0.25
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    cuda_graph: Literal["auto"] | bool = "auto"
    checkpoint_every: PositiveInt = 1_000
    checkpoint_minutes: NonNegativeFloat = 10.0
    log_every: PositiveInt = 100
    loggers: Names = ("tensorboard",)

    def __post_init__(self) -> None:
        if self.warmup > self.steps:  # the learning rate would never reach its peak
            raise InputError(f"training.warmup_steps {self.warmup} is more than training.steps {self.steps}")

    @property
    def peak_learning_rate(self) -> float:
        """The learning rate after the warm-up, that of the optimizer if none is set."""
        return LEARNING_RATES[self.optimizer] if self.learning_rate is None else self.learning_rate

    @property
    def warmup(self) -> int:
        """The number of warm-up steps, a quarter of the steps but at most 500 if none is set."""
        return min(500, self.steps // 4) if self.warmup_steps is None else self.warmup_steps


@config_dataclass
class EvaluationConfig:
    """How the agent is evaluated.

    Attributes:
        episodes: Episodes per target return; in training, 0 for no evaluation.
        target_returns: Target returns, or `auto` for the condition's limit at every step.
            Default: `auto` and the dataset's own targets inside the data, or, without a limit, the dataset's own
            targets and the best return in the data.
        inference: `recurrent` to carry the state over the whole episode, or `window` to re-run the last steps for every
            action, the Decision Transformer's protocol.
        window: Number of steps in the window.
        actions: `greedy` for the most probable discrete action or mode of `gmm`, and the flow from zero of
            `flow_matching`, or `sampled` to draw it with its probability.
        seed: Episode i of every target return starts with the environment's reset(seed + i).
        max_episode_steps: Largest number of steps of an episode. Default: the environment's own limit, or, if it is
            registered without one, that of the longest episode in the data.
        environment_id: The Gymnasium id of the environment to play in, if it is not that of the data. It must have the
            same observations and actions; references and target returns stay those of the data.
        metrics: What is measured in every episode besides its return: `success`, or metrics that a plugin registers.
        checkpoint_episodes: Episodes with which every checkpoint is evaluated during training, at the first target
            return and at the best in the data (once, if the limit makes both the same); 0 for none.
    """

    episodes: NonNegativeInt = 100
    target_returns: TargetReturns | None = None
    inference: Literal["recurrent", "window"] = "recurrent"
    window: PositiveInt = 20
    actions: Literal["greedy", "sampled"] = "greedy"
    seed: NonNegativeInt = 1_000_000
    max_episode_steps: PositiveInt | None = None
    environment_id: str | None = None
    metrics: Names = ()
    checkpoint_episodes: NonNegativeInt = 0


@config_dataclass
class RunConfig:
    """Everything that determines a run.

    Attributes:
        dataset: A dataset's name, such as `standin/hopper-medium`.
        path: The file to read a dataset of D4RL, OGBench or OCBench from, if it is in none of the usual folders;
            `published` downloads D4RL's and OGBench's.
        partial: `keep` or `drop` episodes that break off, neither terminated nor truncated, such as the last one of
            D4RL's files.
        validation: A dataset of the same task that is not trained on: the loss on its episodes is logged as
            `validation_loss`, the checkpoint with the lowest one is `checkpoints/best`, and agents are scored by how
            well they predict its actions.
        top_fraction: Fraction of the episodes to train on, those with the highest returns, rounded down but at least
            one episode. With `condition none` this is filtered behaviour cloning.
        plugins: Modules that were imported first: those that register backbones, objectives, conditions, metrics,
            sources or environments.
        seed: Seed of the weights' initialisation, the sampled segments and dropout.
        init_from: An agent whose weights training starts from, by any of its names, such as the folder of a run. Its
            architecture is the default, and its normalisation of observations and returns and its action box are kept.
        backbone: The sequence backbone; `--backbone NAME` selects it, `--backbone.KEY` sets its options.
        observation: What the agent sees of an observation.
        condition: What the agent is conditioned on; `none` is behaviour cloning. Default: `return_to_go`, with
            `training.goal_relabeling hindsight` `time_to_goal`, and `none` for a log without rewards or environment.
        agent: How histories become tokens.
        objective: The training objective. Default: `gmm` for agents conditioned on the time to a goal, otherwise `mse`.
        training: How the agent is trained.
        evaluation: How the agent is evaluated.
    """

    dataset: str
    path: FileName | None = None
    partial: Literal["keep", "drop"] = "keep"
    validation: str | None = None
    top_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    plugins: Names = ()
    seed: NonNegativeInt = 0
    init_from: FileName | None = None
    backbone: SerializeAsAny[BackboneConfig]
    observation: ObservationConfig = ObservationConfig()
    condition: SerializeAsAny[ConditionConfig] = ReturnToGoConfig()
    agent: AgentConfig = AgentConfig()
    objective: SerializeAsAny[ObjectiveConfig] = MSEConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    def __post_init__(self) -> None:
        training, token = self.training, self.agent.conditioning == "token"
        relabeled = training.goal_relabeling == "hindsight"
        ahead = training.p_swappedgoal > 0 or training.goal_discount not in (None, 1)
        returns, dropout = isinstance(self.condition, ReturnToGoConfig), self.condition.dropout > 0
        chunk = self.objective.chunk_size if isinstance(self.objective, ActionChunkConfig) else 0
        conflicts = {
            "objective.chunk_size must be at most training.context": chunk > training.context,
            "condition return_to_go needs training.goal_relabeling none": relabeled and returns,
            f"condition {self.condition.name} needs training.goal_relabeling hindsight": self.time_to_goal
            and not relabeled,
            "training.goal_discount and training.p_swappedgoal need training.goal_relabeling hindsight": ahead
            and not relabeled,
            "training.sensor_fault needs training.goal_relabeling none": relabeled and training.sensor_fault != "none",
            "the condition needs agent.conditioning adaln": self.condition.needs_adaln and token,
            "condition.dropout needs a condition and agent.conditioning adaln": dropout
            and (self.condition.name == NoConditionConfig.name or not self.agent.uses_adaln(self.condition)),
            "condition.guidance needs condition.dropout": self.condition.guidance != 1 and not dropout,
            "training.early_stopping_patience needs validation": training.early_stopping_patience > 0
            and self.validation is None,
        }
        for conflict in (text for text, present in conflicts.items() if present):
            raise InputError(conflict)

    @property
    def run_name(self) -> str:
        """The name of the run's folder, and of its package's, if the user gives none."""
        return f"{self.dataset.replace('/', '-')}-{self.backbone.name}-seed{self.seed}"

    @property
    def time_to_goal(self) -> bool:
        """Whether the agent is conditioned on the time to a goal."""
        return isinstance(self.condition, TimeToGoalConfig)

    @property
    def subgoal_steps(self) -> int:
        """How many steps ahead subgoals lie; 0 without them."""
        return self.condition.subgoal_steps if isinstance(self.condition, SubgoalConfig) else 0

    @property
    def tbptt_segments(self) -> int:
        """Consecutive segments of a row of the batch: if none are set, 50 where the state outlasts one, else 1."""
        tokens = self.training.context * self.tokens_per_step
        return self.training.tbptt_segments or (50 if memory_exceeds(self.backbone, tokens) else 1)

    @property
    def tokens_per_step(self) -> int:
        """How many tokens the backbone reads at an environment step."""
        if self.agent.tokens == "step":
            return 1
        conditioned = self.condition.name != NoConditionConfig.name and not self.agent.uses_adaln(self.condition)
        return 1 + conditioned + self.agent.previous_action

    @property
    def goal_discount(self) -> float:
        """How far ahead goals in hindsight lie, 0.99 for time-to-goal agents and otherwise 1 if nothing is set."""
        return self.training.goal_discount or (0.99 if self.time_to_goal else 1.0)

    @property
    def resolved(self) -> "RunConfig":
        """The same run with values for the training options that are None."""
        training = replace(
            self.training,
            learning_rate=self.training.peak_learning_rate,
            warmup_steps=self.training.warmup,
            tbptt_segments=self.tbptt_segments,
            goal_discount=self.goal_discount,
        )
        return replace(self, training=training)

    @property
    def portable(self) -> "RunConfig":
        """The same run without paths of this machine."""
        local = self.init_from is not None and Path(self.init_from).is_absolute()
        return replace(self, path=None, init_from=None if local else self.init_from)

    @property
    def takes_return(self) -> bool:
        """Whether the target of an episode is a return, not a time to a goal or none."""
        return self.condition.takes_target and not self.time_to_goal


CHOICES: dict[str, ClassRegistry[Any]] = {"backbone": BACKBONES, "condition": CONDITIONS, "objective": OBJECTIVES}
"""Sections whose options depend on their `name`: its registry."""
DEFAULTS = {"backbone.name": "mingru", "condition.name": ReturnToGoConfig.name, "objective.name": MSEConfig.name}
TIME_TO_GOAL = {"condition.name": TimeToGoalConfig.name, "objective.name": "gmm", "training.optimizer": "muon"}
"""The default names, and the defaults of time-to-goal agents, whose data are multimodal."""
SECTIONS = (*CHOICES, "observation", "agent", "training", "evaluation")
MATCH = "backbone.match_parameters"


def from_dict(data: Mapping[str, Any], source: str = "") -> RunConfig:
    """The configuration of a run from nested or dotted keys and values, with defaults for the rest.

    Raises:
        InputError: Naming `source` and the key that is unknown, missing or has an invalid value.
    """
    options = complete(flatten(data))
    try:
        check_plugins(convert(options.get("plugins", ()), Names, "plugins"))
        classes, known = section_classes(options), option_names(options)
        if {MATCH, "backbone.width"} <= options.keys():
            raise InputError(f"{MATCH} finds the width. Leave backbone.width out.")
        for key in sorted(options.keys() - known):
            raise InputError(f"unknown key {key!r:.100}. {suggest(key, known)}".strip())
        values: dict[str, Any] = {key: value for key, value in options.items() if "." not in key}
        for section in SECTIONS:
            own = {key.partition(".")[2]: value for key, value in options.items() if key.startswith(f"{section}.")}
            if "match_parameters" in own:
                own = asdict(match_parameters(classes[section], parse_count(own.pop("match_parameters")), **own))
            values.setdefault(section, convert(own, classes[section], section))
        return convert(values, RunConfig)
    except ValueError as error:  # also of checks in the classes of plugins
        raise InputError(f"{source}: {error}".removeprefix(": ")) from None


def to_dict(config: RunConfig) -> dict[str, Any]:
    """The full configuration as plain JSON values."""
    return to_json(config)


def flatten(data: Mapping[str, Any]) -> dict[str, Any]:
    """Nested keys as dotted ones: `{"backbone": "lru", "training": {"steps": 5}}` as backbone.name, training.steps."""
    keys: dict[str, Any] = {}
    for key, value in data.items():
        if key in SECTIONS and value is None:
            continue
        if key in CHOICES and isinstance(value, str):
            keys[f"{key}.name"] = value
        elif key in SECTIONS and isinstance(value, Mapping):
            keys |= {f"{key}.{name}": entry for name, entry in value.items()}
        else:
            keys[str(key)] = value
    return keys


def nest(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as nested ones, the inverse of `flatten`."""
    data: dict[str, Any] = {}
    for key, value in keys.items():
        section, _, name = key.rpartition(".")
        (data.setdefault(section, {}) if section else data)[name] = value
    return data


def overlay(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The dotted keys of `base` with overrides. A width and a number of parameters replace each other, the name of
    another condition or objective removes the options of the one in `base`, and that of another backbone those which
    it lacks."""
    sizes = {"backbone.width", MATCH}
    replaced = sizes if sizes & overrides.keys() else set()
    replaced |= _backbone_options(base) - _backbone_options({**base, **overrides})
    for section in ("condition", "objective"):
        name = f"{section}.name"
        if name in base and overrides.get(name, base[name]) != base[name]:
            replaced |= {key for key in base if key.startswith(f"{section}.")}
    return {key: value for key, value in base.items() if key not in replaced} | dict(overrides)


def _backbone_options(options: Mapping[str, Any]) -> set[str]:
    """The dotted keys of the backbone that dotted keys choose; none if it is not registered."""
    entry = BACKBONES.get(str(complete(options)["backbone.name"]))
    return set() if entry is None else {f"backbone.{field.name}" for field in fields(entry.config)}


def complete(options: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys, with the names of backbone, condition and objective, and the defaults of time-to-goal agents where
    goals are relabeled."""
    relabeled = options.get("training.goal_relabeling") == "hindsight"
    names = TimeToGoalConfig.name, SubgoalConfig.name
    time_to_goal = relabeled and options.get("condition.name", TimeToGoalConfig.name) in names
    return DEFAULTS | (TIME_TO_GOAL if time_to_goal else {}) | dict(options)


def section_classes(options: Mapping[str, Any]) -> dict[str, type]:
    """The dataclass of every section, with the backbone, condition and objective that dotted keys choose. The
    key "" has `RunConfig`."""
    options = complete(options)
    classes: dict[str, Any] = {field.name: field.type for field in fields(RunConfig) if field.name in SECTIONS}
    for section, registry in CHOICES.items():
        key = f"{section}.name"
        classes[section] = registry.registered(convert(options[key], str, key)).config
    return {"": RunConfig, **classes}


def option_names(options: Mapping[str, Any]) -> list[str]:
    """All dotted keys of a run with the backbone, condition and objective that dotted keys choose."""
    names = {section: [field.name for field in fields(kind)] for section, kind in section_classes(options).items()}
    return [MATCH, *(f"{section}.{name}".lstrip(".") for section, own in names.items() for name in own)]


def parse_count(written: int | str) -> int:
    """600000, `600k` or `0.6M` as a number of parameters."""
    number, unit = re.fullmatch(r"\s*(.*?)([kM]?)\s*", str(written), re.IGNORECASE).groups()  # type: ignore[union-attr]
    factor = {"": 1, "k": 1e3, "m": 1e6}[unit.lower()]
    return round(convert(number, Annotated[float, Field(gt=0, le=1e12)], MATCH) * factor)
