"""The configuration of a run: one frozen dataclass tree, strict, printed back whole, saved with every run.

A YAML file, a checkpoint's config.json and a command line (cli/arguments.py) all come in through `run_parser`, which
knows every key of a run with one backbone and its type.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from jsonargparse import ArgumentParser, Namespace

from decision_rnn.agent import (
    AgentConfig,
    ObjectiveConfig,
    SquaredErrorConfig,
    registered_objective,
    registered_objectives,
)
from decision_rnn.backbones import BackboneConfig, match_parameters, registered, registered_names
from decision_rnn.errors import InputError, did_you_mean
from decision_rnn.parsing import check_numbers, parse_count, parse_keys
from decision_rnn.plugins import check_plugins, plugins_of

WARMUP_STEPS = 500
"""Of the learning rate in a run of 1,000 steps or more, where none are asked for."""


@dataclass(frozen=True, kw_only=True)
class ObservationConfig:
    """What the agent sees of an observation, in training and in the environment alike.

    Attributes:
        mask: What is hidden: `none`, or the `velocity` of every joint (MuJoCo bodies), which then has to be
            remembered from one step to the next.
    """

    mask: Literal["none", "velocity"] = "none"


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How the agent is trained.

    Attributes:
        steps: Optimiser steps.
        batch_size: Slices per step.
        context: Environment steps per slice.
        carry: How many consecutive slices a row of the batch reads, on average, before it begins anew at a random
            place. The state goes on from one to the next, the gradient does not (truncated backpropagation through
            time). 1: every slice begins anew. Layers that forget slowly (s4d, retention, aaren) need more, 50 say, to
            act well with a state carried over an episode.
        learning_rate: AdamW's peak rate.
        recurrent_rate: Rate of a recurrence's own parameters over `learning_rate`; if left out, that of the backbone:
            lru 0.5, s4d at most 1e-3 / learning_rate, all others 1.
        weight_decay: AdamW's decay of weight matrices.
        warmup_steps: Steps over which the rate rises from zero; if left out, 500, or half of `steps` if fewer.
        schedule: What the rate does after the warm-up: `cosine` to zero at the last step, or `constant`.
        gradient_clip: Largest global norm of the gradient; 0 for no bound.
        precision: Of matrix products: `bf16`, `fp32`, or `auto`, bf16 where the processor multiplies it natively.
        device: `cpu`, `cuda`, or `auto`, cuda where there is one.
        checkpoint_every: Steps between checkpoints.
        log_every: Steps between lines of metrics.
    """

    steps: int = 10_000
    batch_size: int = 64
    context: int = 20
    carry: int = 1
    learning_rate: float = 1e-3
    recurrent_rate: float | None = None
    weight_decay: float = 1e-4
    warmup_steps: int | None = None
    schedule: Literal["cosine", "constant"] = "cosine"
    gradient_clip: float = 0.25
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    checkpoint_every: int = 2_000
    log_every: int = 100

    def __post_init__(self) -> None:
        _at_least(self, 1, "steps", "batch_size", "context", "carry", "checkpoint_every", "log_every")
        if self.warmup_steps is None:
            object.__setattr__(self, "warmup_steps", min(WARMUP_STEPS, self.steps // 2))
        _at_least(self, 0, "learning_rate", "recurrent_rate", "weight_decay", "warmup_steps", "gradient_clip")


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """How the agent is evaluated: all episodes of all target returns at once.

    Attributes:
        episodes: Episodes per target return; 0 to train without being evaluated.
        target_returns: Returns to ask for; the dataset's own if left out.
        state: `carry` the recurrent state over the whole episode, or re-run the last steps as a `window` for
            every action, the Decision Transformer's protocol.
        window: Steps in that window.
        seed: Episode i of every target begins with the environment's reset(seed + i).
    """

    episodes: int = 100
    target_returns: tuple[float, ...] | None = None
    state: Literal["carry", "window"] = "carry"
    window: int = 20
    seed: int = 1_000_000

    def __post_init__(self) -> None:
        _at_least(self, 1, "window")
        _at_least(self, 0, "episodes", "seed")
        if self.target_returns is not None and not self.target_returns:
            raise InputError("evaluation.target_returns is empty: name at least one return, or leave it out")
        if not all(math.isfinite(target) for target in self.target_returns or ()):
            raise InputError(f"evaluation.target_returns is {list(self.target_returns or ())}: they must be finite")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that decides a run.

    Attributes:
        dataset: A dataset's name, as in data/catalog.py.
        path: The file to read a D4RL dataset from, where it is not in one of the usual folders.
        partial: `keep` or `drop` episodes that break off, neither terminated nor truncated, such as the last one of
            D4RL's files.
        actions: `keep` the data's actions, which must then lie between -1 and 1, or `clip` to that the few that do
            not, as D4RL's own code does and as an environment does whose own box it is.
        plugins: Modules that were imported first: those that register backbones, objectives, sources of datasets or
            environments.
        seed: Of the weights' initialisation, the sampled slices and dropout.
        backbone: The sequence backbone; `--backbone NAME` picks it, `--backbone.KEY` sets its options.
        observation: What the agent sees of an observation.
        agent: How histories become tokens.
        objective: What is trained for; `--objective NAME` picks it, `--objective.KEY` sets its options.
        training: How the agent is trained.
        evaluation: How it is evaluated.
    """

    dataset: str
    path: str | None = None
    partial: Literal["keep", "drop"] = "keep"
    actions: Literal["keep", "clip"] = "keep"
    plugins: tuple[str, ...] = ()
    seed: int = 0
    backbone: BackboneConfig
    observation: ObservationConfig = field(default_factory=ObservationConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    objective: ObjectiveConfig = field(default_factory=SquaredErrorConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}: it must be at least 0")


DEFAULT_BACKBONE = "mingru"
DEFAULT_OBJECTIVE = SquaredErrorConfig().name
PARTIAL_HELP = "keep or drop episodes that break off, neither terminated nor truncated"
ACTIONS_HELP = "keep the data's actions, which must lie within [-1, 1], or clip those that do not, as D4RL's code does"
PLUGINS_HELP = "modules to import first, from the working folder or as installed: they register what they define"
WIDTH, MATCH = "backbone.width", "backbone.match_parameters"
SECTIONS = {
    "observation": ObservationConfig,
    "agent": AgentConfig,
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
}


def from_dict(data: Mapping[str, Any], source: str) -> RunConfig:
    """The run configuration that `to_dict` wrote; InputError names `source` and the key."""
    check_plugins(plugins_of(data, source), source)
    parser = run_parser("decision-rnn", backbone_of(data), objective_of(data))
    namespace = apply(parser, data, source)
    try:
        return instantiate(parser, namespace)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def to_dict(config: RunConfig) -> dict[str, Any]:
    """The configuration, whole, as plain JSON values."""
    data = asdict(config)
    targets = config.evaluation.target_returns
    data["evaluation"]["target_returns"] = None if targets is None else list(targets)
    data["plugins"] = list(config.plugins)
    return data


def backbone_of(data: Mapping[str, Any]) -> str:
    """The name of the backbone that a configuration dictionary asks for: `backbone: lru` or its `name` key."""
    section = data.get("backbone", DEFAULT_BACKBONE)
    name = str(section.get("name", DEFAULT_BACKBONE) if isinstance(section, Mapping) else section)[:100]
    module, dot, _ = name.rpartition(".")
    if dot:
        check_plugins([module], f"the backbone {name}")
    try:
        registered(name)
    except KeyError as error:
        hint = did_you_mean(name, registered_names()) or "one of your own needs --plugins with the module it is in"
        raise InputError(f"{error.args[0]}; {hint}") from None
    return name


def objective_of(data: Mapping[str, Any]) -> str:
    """The name of the objective that a configuration dictionary asks for: `objective: mse` or its `name` key."""
    section = data.get("objective", DEFAULT_OBJECTIVE)
    name = str(section.get("name", DEFAULT_OBJECTIVE) if isinstance(section, Mapping) else section)[:100]
    try:
        registered_objective(name)
    except KeyError as error:
        hint = did_you_mean(name, registered_objectives()) or "one of your own needs --plugins with the module it is in"
        raise InputError(f"{error.args[0]}; {hint}") from None
    return name


def run_parser(program: str, backbone: str, objective: str) -> ArgumentParser:
    """A parser of every key of a run with that backbone and objective."""
    parser = ArgumentParser(
        prog=program,
        usage=f"{program} [dataset] [--config FILE] [--KEY VALUE ...]",
        epilog=f"`{program} --backbone NAME --help` shows the options of another backbone than {backbone}.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_argument("dataset", nargs="?", type=str | None, help="the dataset's name, such as hopper-medium")
    parser.add_argument("--path", type=str | None, help="the HDF5 file of a D4RL dataset")
    parser.add_argument("--partial", type=Literal["keep", "drop"], default="keep", help=PARTIAL_HELP)
    parser.add_argument("--actions", type=Literal["keep", "clip"], default="keep", help=ACTIONS_HELP)
    parser.add_argument("--plugins", type=tuple[str, ...], default=(), metavar="A,B", help=PLUGINS_HELP)
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights, sampled slices and dropout")
    parser.add_class_arguments(registered(backbone).config, "backbone")
    parser.add_argument(
        f"--{MATCH}",
        type=int | str | None,
        metavar="NUMBER",
        help="in place of a width: find that which gives the backbone about so many parameters, such as 600k",
    )
    parser.add_class_arguments(registered_objective(objective).config, "objective")
    for name, section in SECTIONS.items():
        parser.add_class_arguments(section, name)
    for action in parser._actions:
        if action.dest == "backbone":
            action.metavar, action.help = "NAME", f"which one: {', '.join(registered_names())}"
        elif action.dest == "objective":
            action.metavar, action.help = "NAME", f"which one: {', '.join(registered_objectives())}"
        elif action.dest in SECTIONS:
            action.help = argparse.SUPPRESS
    return parser


def apply(parser: ArgumentParser, data: Mapping[str, Any], source: str) -> Namespace:
    """The parser's defaults with a configuration dictionary on top."""
    backbone = {**section(data.get("backbone")), "name": backbone_of(data)}
    if "width" in backbone and backbone.get("match_parameters") is not None:
        raise two_widths(source)
    check_backbone_keys(backbone["name"], [f"backbone.{key}" for key in backbone], source)
    objective = {**section(data.get("objective")), "name": objective_of(data)}
    return parse_keys(parser, {**data, "backbone": backbone, "objective": objective}, source)


def check_backbone_keys(backbone: str, keys: Sequence[str], source: str) -> None:
    """InputError for a key of other backbones than this one, naming those that have it."""

    def has(name: str, key: str) -> bool:
        return key == MATCH or key in {f"backbone.{f.name}" for f in fields(registered(name).config)}

    for key in keys:
        owners = [name for name in registered_names() if has(name, key)]
        if owners and not has(backbone, key):
            raise InputError(
                f"{source}: the backbone {backbone} has no {key}, which {', '.join(owners)} "
                f"{'has' if len(owners) == 1 else 'have'}: leave out the key or the backbone"
            )


def two_widths(source: str) -> InputError:
    """The error for a width that is given beside a number of parameters."""
    return InputError(
        f"{source}: {MATCH} finds the width, so {WIDTH} cannot be given beside it: leave one of the two out"
    )


def instantiate(parser: ArgumentParser, namespace: Namespace) -> RunConfig:
    """The run of a parser's values; InputError names the key of one that cannot be used."""
    if namespace.dataset is None:
        raise InputError(f"no dataset was named: give one, such as `{parser.prog} hopper-medium`")
    check_numbers(namespace, endless=("training.gradient_clip",))  # infinite: nothing is clipped
    asked = namespace.pop(MATCH)
    try:
        if asked is not None:
            options = {key: value for key, value in vars(namespace.backbone).items() if key != "width"}
            matched = match_parameters(registered(namespace.backbone.name).config, parse_count(asked, MATCH), **options)
            namespace.backbone.width = matched.width
        values = parser.instantiate(namespace)
    except ValueError as error:  # of a backbone's configuration
        raise InputError(str(error)) from None
    return RunConfig(**{f.name: values[f.name] for f in fields(RunConfig)})


def section(value: Any) -> dict[str, Any]:
    """A section of a configuration, empty where there is none; `backbone: lru` names one without keys."""
    return dict(value) if isinstance(value, Mapping) else {}


def _at_least(section: Any, least: float, *names: str) -> None:
    kind = type(section).__name__.removesuffix("Config").lower()
    for name in names:
        value = getattr(section, name)
        if value is not None and not value >= least:  # nor is a NaN
            raise InputError(f"{kind}.{name} is {value}: it must be at least {least}")
