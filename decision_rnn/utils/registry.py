"""Names whose modules are imported on first use: registries of classes, and the public names of packages."""

import ast
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")
Config = TypeVar("Config")
Class = TypeVar("Class", bound=Callable[..., Any])


def public_names(package: str) -> tuple[Callable[[str], Any], list[str]]:
    """The `__getattr__` of a package, which imports a public name on first use, and its `__all__`.

    The names are those that the .pyi beside its __init__.py imports for type checkers.
    """
    stub = Path(str(sys.modules[package].__file__)).with_suffix(".pyi")
    homes = {
        alias.name: str(statement.module)
        for statement in ast.parse(stub.read_text()).body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }

    def import_name(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return import_name, sorted(homes)


@dataclass
class Registration(Generic[Made, Config]):
    """A configuration class, and the class that is created from it.

    Attributes:
        config: The configuration class.
        home: The module that registers the class.
        cls: The class, created as `cls(config, ...)`.
    """

    config: type[Config]
    home: str

    @cached_property
    def cls(self) -> Callable[..., Made]:
        importlib.import_module(self.home)  # its `register` sets the attribute
        return vars(self)["cls"]


class Registry(Generic[Made, Config]):
    """Classes of one kind by name. Looking a name up imports at most a module of the package, since the name may be
    untrusted.

    Args:
        kind: What is registered, in the words of error messages: "backbone".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.entries: dict[str, Registration[Made, Config]] = {}

    def declare(self, home: str, *configs: type[Config]) -> None:
        """Make configurations known, whose classes the module `home` registers once one of them is needed."""
        self.entries |= {self._name_of(config): Registration(config, home) for config in configs}

    def register(self, config: type[Config]) -> Callable[[Class], Class]:
        """Class decorator: register a class under the default of the field `name` of its configuration class.

        Raises:
            ValueError: If the configuration class gives `name` no default or one with a dot, or the name is taken.
        """
        name = self._name_of(config)

        def decorate(cls: Class) -> Class:
            entry = self.entries.setdefault(name, Registration(config, cls.__module__))
            if (entry.config, entry.home) != (config, cls.__module__) or "cls" in vars(entry):
                holder: Any = entry.cls
                raise ValueError(
                    f"the name {name!r} is taken by {holder.__module__}.{holder.__qualname__}: give "
                    f"{config.__name__}.name another default"
                )
            entry.cls = cls
            return cls

        return decorate

    def registered(self, name: str) -> Registration[Made, Config]:
        """The class of that name and its configuration class.

        Raises:
            KeyError: If the name is not registered; the message lists the known names.
        """
        if name not in self.entries:
            raise KeyError(f"unknown {self.kind} {name!r}; known: {', '.join(self.names())}")
        return self.entries[name]

    def names(self) -> list[str]:
        """All registered names, sorted."""
        return sorted(self.entries)

    def _name_of(self, config: type[Config]) -> str:
        name = next(field.default for field in fields(config) if field.name == "name")  # type: ignore[arg-type]
        if not isinstance(name, str):
            raise ValueError(f"{config.__name__} must give its field `name` a default: the name of the {self.kind}")
        if "." in name:
            raise ValueError(
                f"the name {name!r} contains a dot, which separates a module from a class: choose one without"
            )
        return name
