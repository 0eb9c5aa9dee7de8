"""Which code a run was made with: hashes of the sources that its weights and scores depend on.

    {"decision-rnn": "1a2b3c4d5e6f", "layers": "0a1b2c3d4e5f"}

`decision-rnn` stands for the package's layers and agent; the other names are modules: the run's plugins, and where its
backbone, condition and objective are defined. Runs of version 0.2 recorded none, and nothing is known of their code.
"""

import contextlib
import functools
import hashlib
import inspect
import io
import sys
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium

from decision_rnn.agent import CONDITIONS, OBJECTIVES
from decision_rnn.backbones import registered
from decision_rnn.backbones.contract import BACKBONES
from decision_rnn.config import RunConfig
from decision_rnn.data.sources.contract import SOURCES
from decision_rnn.data.store.episode_store import cache_root
from decision_rnn.evaluation.metrics import METRICS, metrics_named

OWN = "decision-rnn"


def code_of(config: RunConfig) -> dict[str, str]:
    """The hashes of the code that a run of this configuration is made with in this process.

    A module counts with its file as it is now, a package with all of its .py files, both without comments and
    docstrings; other modules that these import do not count. Plugins that are not imported, and modules without a
    file, are left out, and so are plugins that register only what other runs use, or metrics.
    """
    classes: tuple[Any, ...] = (
        registered(config.backbone.name).cls,
        CONDITIONS.registered(config.condition.name).cls,
        OBJECTIVES.registered(config.objective.name).cls,
    )
    hashes = {OWN: _package_digest()} | _homes_of(classes)
    for name in config.plugins:
        if _counts(name, classes):
            hashes |= _module(name)
    return dict(sorted(hashes.items()))


def code_of_metrics(names: Iterable[str]) -> dict[str, str]:
    """The hashes of the code of metrics, without those of the package."""
    return dict(sorted(_homes_of(metrics_named(names).values()).items()))


def _homes_of(classes: Iterable[type[Any]]) -> dict[str, str]:
    """The hashes of the modules that define classes, by import, without --plugins; without those of the package."""
    hashes: dict[str, str] = {}
    for cls in classes:
        if cls.__module__ == "__main__":  # a notebook's cell, or a script that does more than define it
            hashes |= _source_of(cls)
        elif not cls.__module__.startswith("decision_rnn."):
            hashes |= _module(cls.__module__)
    return hashes


def _counts(plugin: str, used: Sequence[type[Any]]) -> bool:
    """Whether a run depends on a plugin: not if all that it registers are parts of agents that the run does not use,
    and metrics."""

    def within(module: str) -> bool:
        return module == plugin or module.startswith(f"{plugin}.")

    registered = [of.cls for registry in (BACKBONES, CONDITIONS, OBJECTIVES) for of in registry.entries.values()]
    own = [cls for cls in (*registered, *METRICS.values()) if within(cls.__module__)]
    if not own or set(own) & set(used):
        return True
    makers = (of.entry_point for of in gymnasium.registry.values())
    homes = (of.partition(":")[0] if isinstance(of, str) else getattr(of, "__module__", "") for of in makers)
    return any(map(within, (*homes, *(type(source).__module__ for source in SOURCES.values()))))


def changed(made: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names of the code that is known of both and differs."""
    return [name for name, digest in made.items() if now.get(name, digest) != digest]


def both(made: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """The code of a run that is resumed: hashes joined by a plus where it was changed in between."""
    joined = {name: f"{made[name]}+{now[name]}" for name in changed(made, now)}
    return {**made, **now, **joined} if made else dict(now)


@functools.cache
def _package_digest() -> str:
    package = Path(__file__).parent
    return _digest([*package.glob("agent/**/*.py"), *package.glob("backbones/**/*.py")], package)


def mark_checked(layer: type[Any]) -> None:
    """Remember, in the cache, that a layer outside the package keeps the contract as it is now."""
    if (mark := _mark(layer)) is not None:
        with contextlib.suppress(OSError):
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()


def never_checked(layer: type[Any]) -> bool:
    """Whether a layer is defined in a module outside the package, and was not checked as it is now."""
    mark = _mark(layer)
    return mark is not None and not mark.exists()


def _mark(layer: type[Any]) -> Path | None:
    module = layer.__module__
    own = {} if module == "__main__" or module.startswith("decision_rnn.") else _module(module)
    return cache_root() / "checked" / f"{module}.{layer.__qualname__}-{own[module]}" if own else None


def _module(name: str) -> dict[str, str]:
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None or not file.endswith(".py"):
        return {}
    path = Path(file)
    return {name: _digest(path.parent.rglob("*.py") if path.name == "__init__.py" else [path], path.parent)}


def _source_of(cls: type[Any]) -> dict[str, str]:
    try:
        return {cls.__qualname__: hashlib.sha256(inspect.getsource(cls).encode()).hexdigest()[:12]}
    except (OSError, TypeError):  # typed into an interpreter that keeps no source
        return {}


def _digest(paths: Iterable[Path], root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode() + _without_comments(path.read_bytes()))
    return digest.hexdigest()[:12]


def _without_comments(source: bytes) -> bytes:
    """The words of a Python file, without its layout, comments and docstrings, which change no number."""
    kept: list[str] = []
    begins = True  # a statement
    with contextlib.suppress(tokenize.TokenError, IndentationError):  # a plugin that runs has none
        for token in tokenize.tokenize(io.BytesIO(source).readline):
            breaks = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
            if token.type in (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING):
                continue
            if not (begins and token.type in (tokenize.STRING, tokenize.NEWLINE)):
                kept.append(tokenize.tok_name[token.type] if breaks else token.string)
                begins = breaks
    return "".join("".join(kept).split()).encode()  # Python 3.12 divides f-strings into more words
