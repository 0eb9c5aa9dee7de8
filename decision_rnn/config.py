"""The configuration of a run: one frozen dataclass tree, strict, printed back whole, saved with every run.

YAML file -> dictionary -> dataclasses, then the command line's `--section.key value` on top; the same way in
reads a checkpoint's config.json.
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import yaml
from jsonargparse import ArgumentError, ArgumentParser, Namespace

from decision_rnn.agent import (
    AgentConfig,
    ObjectiveConfig,
    SquaredErrorConfig,
    registered_objective,
    registered_objectives,
)
from decision_rnn.backbones import BackboneConfig, match_parameters, registered, registered_names
from decision_rnn.errors import InputError, did_you_mean
from decision_rnn.plugins import import_plugins

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
        episodes: Episodes per target return; 0 for no evaluation after training.
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


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that decides a run.

    Attributes:
        dataset: A dataset's name, as in data/catalog.py.
        path: The file to read a D4RL dataset from, where it is not in one of the usual folders.
        partial: `keep` or `drop` episodes that break off, neither terminated nor truncated, such as the last one of
            D4RL's files.
        actions: `keep` the data's actions, which must then lie between -1 and 1, or `clip` them to that, as an
            environment does whose own box it is.
        plugins: Modules to import first: those that register backbones, objectives, sources of datasets or
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


DEFAULT_BACKBONE = "mingru"
DEFAULT_OBJECTIVE = SquaredErrorConfig().name
PARTIAL_HELP = "keep or drop episodes that break off, neither terminated nor truncated"
_WIDTH, _MATCH = "backbone.width", "backbone.match_parameters"
_SECTIONS = {
    "observation": ObservationConfig,
    "agent": AgentConfig,
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
}


def parse_run(
    program: str,
    arguments: Sequence[str],
    add_options: Callable[[ArgumentParser], None] = lambda parser: None,
    backbone: str | None = None,
) -> tuple[RunConfig, Namespace]:
    """The run that a command line asks for, and the command's own options.

    A YAML file named by `--config` comes first, `--section.key value` goes on top of it.

    Args:
        program: The command's name, for its help.
        arguments: What follows it.
        add_options: Adds the command's own options.
        backbone: Takes the place of the one asked for.

    Raises:
        InputError: Naming the file or key that cannot be used.
    """
    chosen, rest = _split_choices(arguments)
    import_plugins(_plugin_names(chosen.plugins))
    file = chosen.config
    data = read_yaml(file) if file else {}
    if backbone or chosen.backbone:
        data["backbone"] = {**_section(data.get("backbone")), "name": backbone or chosen.backbone}
    if chosen.objective:
        data["objective"] = {**_section(data.get("objective")), "name": chosen.objective}
    if chosen.plugins is not None:
        data["plugins"] = chosen.plugins
    parser = _run_parser(program, backbone_of(data), objective_of(data))
    parser.add_argument("--config", type=Path, help="a YAML file of these keys; the command line goes on top")
    add_options(parser)
    base = _apply(parser, data, str(file or "command line"))
    if _gives(rest, _WIDTH):
        if _gives(rest, _MATCH):
            raise _two_widths("command line")
        base[_MATCH] = None  # the command line goes on top: its width stands, whatever the file asks for
    namespace = parse(parser, rest, base)
    if namespace.dataset is None:
        namespace.dataset = base.dataset  # a positional that is left out hides what the file says
    return _instantiate(parser, namespace), namespace


def parse(parser: ArgumentParser, arguments: Sequence[str], base: Namespace | None = None) -> Namespace:
    """Parse a command line; what cannot be used is an InputError of one sentence."""
    try:
        return parser.parse_args(list(arguments), namespace=base)
    except ArgumentError as error:
        raise InputError(_explain(parser, error, "command line")) from None


def from_dict(data: Mapping[str, Any], source: str) -> RunConfig:
    """The run configuration that `to_dict` wrote; InputError names `source` and the key."""
    parser = _run_parser("decision-rnn", backbone_of(data), objective_of(data))
    return _instantiate(parser, _apply(parser, data, source))


def to_dict(config: RunConfig) -> dict[str, Any]:
    """The configuration, whole, as plain JSON values."""
    data = asdict(config)
    targets = config.evaluation.target_returns
    data["evaluation"]["target_returns"] = None if targets is None else list(targets)
    data["plugins"] = list(config.plugins)
    return data


def read_yaml(path: Path) -> dict[str, Any]:
    """A configuration file as a dictionary."""
    try:
        data = yaml.safe_load(path.read_text())
    except OSError as error:
        raise InputError(f"cannot read the configuration {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise InputError(f"{path} holds a {type(data).__name__}: it must hold keys and values")
    return data


def backbone_of(data: Mapping[str, Any]) -> str:
    """The name of the backbone that a configuration dictionary asks for: `backbone: lru` or its `name` key."""
    section = data.get("backbone", DEFAULT_BACKBONE)
    name = section.get("name", DEFAULT_BACKBONE) if isinstance(section, Mapping) else section
    try:
        registered(str(name))
    except KeyError as error:
        hint = did_you_mean(str(name), registered_names())
        raise InputError(f"{error.args[0]}; {hint}".rstrip("; ")) from None
    return name


def objective_of(data: Mapping[str, Any]) -> str:
    """The name of the objective that a configuration dictionary asks for: `objective: mse` or its `name` key."""
    section = data.get("objective", DEFAULT_OBJECTIVE)
    name = str(section.get("name", DEFAULT_OBJECTIVE) if isinstance(section, Mapping) else section)
    try:
        registered_objective(name)
    except KeyError as error:
        hint = did_you_mean(name, registered_objectives())
        raise InputError(f"{error.args[0]}; {hint}".rstrip("; ")) from None
    return name


def _plugin_names(written: Any) -> tuple[str, ...]:
    """The modules of `--plugins a,b`."""
    if not isinstance(written, str):
        return tuple(written or ())
    return tuple(name.strip() for name in written.split(",") if name.strip())


def _parameter_count(written: int | str) -> int:
    """600000, `600k` or `0.6M` as a number; ValueError where it is none."""
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)([km]?)", str(written).replace("_", ""), re.IGNORECASE)
    count = round(float(parts[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[parts[2].lower()]) if parts else 0
    if count < 1:
        raise ValueError(f"{_MATCH} {written!r} is no number of parameters: write 600000, 600k or 0.6M")
    return count


def _gives(arguments: Sequence[str], key: str) -> bool:
    """Whether a command line sets that key of the backbone; argparse lets a key be cut short."""
    words = (word.partition("=")[0] for word in arguments if re.match(r"--backbone\.\w", word))
    return any(f"--{key}".startswith(word) for word in words)


def _two_widths(source: str) -> InputError:
    return InputError(
        f"{source}: {_MATCH} finds the width, so {_WIDTH} cannot be given beside it: leave one of the two out"
    )


def _at_least(section: Any, least: float, *names: str) -> None:
    kind = type(section).__name__.removesuffix("Config").lower()
    for name in names:
        value = getattr(section, name)
        if value is not None and value < least:
            raise InputError(f"{kind}.{name} is {value}: it must be at least {least}")


def _run_parser(program: str, backbone: str, objective: str) -> ArgumentParser:
    """A parser of every key of a run with that backbone and objective."""
    parser = ArgumentParser(
        prog=program,
        usage=f"{program} [dataset] [--config FILE] [--KEY VALUE ...]",
        epilog=f"`{program} --backbone NAME --help` shows the options of another backbone than {backbone}.",
        exit_on_error=False,
    )
    parser.add_argument("dataset", nargs="?", type=str | None, help="the dataset's name, such as hopper-medium")
    parser.add_argument("--path", type=str | None, help="the HDF5 file of a D4RL dataset")
    parser.add_argument("--partial", type=Literal["keep", "drop"], default="keep", help=PARTIAL_HELP)
    parser.add_argument(
        "--actions",
        type=Literal["keep", "clip"],
        default="keep",
        help="keep the data's actions, or clip them to [-1, 1]",
    )
    parser.add_argument("--plugins", type=str | tuple[str, ...], default=(), help="modules to import first: a,b")
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights, sampled slices and dropout")
    parser.add_class_arguments(registered(backbone).config, "backbone")
    parser.add_argument(
        f"--{_MATCH}",
        type=int | str | None,
        metavar="NUMBER",
        help="in place of a width: find that which gives the backbone about so many parameters, such as 600k",
    )
    parser.add_class_arguments(registered_objective(objective).config, "objective")
    for name, section in _SECTIONS.items():
        parser.add_class_arguments(section, name)
    for action in parser._actions:
        if action.dest == "backbone":
            action.metavar, action.help = "NAME", f"which one: {', '.join(registered_names())}"
        elif action.dest == "objective":
            action.metavar, action.help = "NAME", f"which one: {', '.join(registered_objectives())}"
        elif action.dest in _SECTIONS:
            action.help = argparse.SUPPRESS
    return parser


def _split_choices(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Take `--backbone`, `--objective`, `--config` and `--plugins` out of a command line, which decide what the rest
    may say."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    first.add_argument("--backbone", "--backbone.name")
    first.add_argument("--objective", "--objective.name")
    first.add_argument("--config", type=Path)
    first.add_argument("--plugins")
    try:
        return first.parse_known_args(list(arguments))
    except argparse.ArgumentError as error:
        raise InputError(f"command line: {error}") from None


def _apply(parser: ArgumentParser, data: Mapping[str, Any], source: str) -> Namespace:
    """The parser's defaults with a configuration dictionary on top."""
    nested = dict(data)
    backbone = {**_section(nested.get("backbone")), "name": backbone_of(data)}
    if "width" in backbone and backbone.get("match_parameters") is not None:
        raise _two_widths(source)
    nested["backbone"] = backbone
    nested["objective"] = {**_section(nested.get("objective")), "name": objective_of(data)}
    for name in _SECTIONS:
        if name in nested and not isinstance(nested[name], dict):
            raise InputError(f"{source}: {name} must hold keys and values, not {nested[name]!r}")
    try:
        return parser.parse_object(nested)
    except ArgumentError as error:
        raise InputError(_explain(parser, error, source)) from None


def _instantiate(parser: ArgumentParser, namespace: Namespace) -> RunConfig:
    asked = namespace.pop(_MATCH)
    try:
        if asked is not None:
            options = {key: value for key, value in vars(namespace.backbone).items() if key != "width"}
            matched = match_parameters(registered(namespace.backbone.name).config, _parameter_count(asked), **options)
            namespace.backbone.width = matched.width
        values = parser.instantiate(namespace)
    except ValueError as error:  # of a backbone's configuration
        raise InputError(str(error)) from None
    if values.dataset is None:
        raise InputError(f"no dataset was named: give one, such as `{parser.prog} hopper-medium`")
    values.plugins = _plugin_names(values.plugins)
    return RunConfig(**{f.name: values[f.name] for f in fields(RunConfig)})


def _section(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _explain(parser: ArgumentParser, error: Exception, source: str) -> str:
    """One sentence of a parser's message, with the nearest known key where one was misspelt."""
    message = " ".join(str(error).split())
    known = [action.dest for action in parser._actions if "." in action.dest]
    unknown = re.search(r"unrecognized arguments: --([\w.]+)", message)
    grouped = re.search(r"Group '(\w+)' does not accept option '(\w+)'", message)
    key = unknown[1] if unknown else f"{grouped[1]}.{grouped[2]}" if grouped else ""
    return f"{source}: {message}; {did_you_mean(key, known, 0.75)}`{parser.prog} --help` lists the keys"
