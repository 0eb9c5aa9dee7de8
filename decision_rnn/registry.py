"""Registries: from a name to a class and its configuration class, for everything that a user's own module may add."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")
Config = TypeVar("Config")
Class = TypeVar("Class", bound=Callable[..., Any])


@dataclass(frozen=True)
class Registration(Generic[Made, Config]):
    """A class, created as `cls(config, ...)`, and the class of its configuration."""

    cls: Callable[..., Made]
    config: type[Config]


class Registry(Generic[Made, Config]):
    """Classes of one kind by name. Looking a name up imports no module, since the name may be untrusted.

    Args:
        kind: What is registered, in the words of error messages: "backbone".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.entries: dict[str, Registration[Made, Config]] = {}

    def register(self, config: type[Config]) -> Callable[[Class], Class]:
        """Class decorator: register a class under the default of the field `name` of its configuration class.

        Raises:
            ValueError: If the configuration class gives `name` no default or one with a dot, or the name is taken.
        """
        name = next(field.default for field in fields(config) if field.name == "name")  # type: ignore[arg-type]
        if not isinstance(name, str):
            raise ValueError(f"{config.__name__} must give its field `name` a default: the name of the {self.kind}")
        if "." in name:
            raise ValueError(
                f"the name {name!r} contains a dot, which separates a module from a class: choose one without"
            )

        def decorate(cls: Class) -> Class:
            if name in self.entries:
                holder: Any = self.entries[name].cls
                raise ValueError(
                    f"the name {name!r} is taken by {holder.__module__}.{holder.__qualname__}: give "
                    f"{config.__name__}.name another default"
                )
            self.entries[name] = Registration(cls, config)
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
