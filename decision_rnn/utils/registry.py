"""What modules register of one kind, by name."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import TypeAdapter

from decision_rnn.utils.errors import InputError, did_you_mean

Class = TypeVar("Class", bound=Callable[..., Any])
Config = TypeVar("Config")
Value = TypeVar("Value")


class Entry(NamedTuple, Generic[Config]):
    """A class, created as `cls(config, ...)`, and the class of `config`."""

    config: type[Config]
    cls: Callable[..., Any]


class Registry(dict[str, Value]):
    """Values of one kind, such as "metric", by name."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.places: dict[str, str] = {}
        """By name, where the class is: `module:Class`."""

    def add(self, name: str, value: Value, cls: Any) -> None:
        """Register the value that a class provides. It replaces that of a class of the same module and name, so that a
        notebook's cell can run again; ValueError if another class has the name."""
        place = f"{cls.__module__}:{cls.__qualname__}"
        if name in self and (other := self.places[name]) != place:
            raise ValueError(f"the {self.kind} {name!r} is registered already, by {other}. Give {place} another name.")
        self[name], self.places[name] = value, place

    def registered(self, name: str) -> Value:
        """The value of that name; InputError if there is none."""
        if name not in self:
            raise InputError(
                f"unknown {self.kind} {name!r:.100}. {did_you_mean(name, self)}Known are "
                f"{', '.join(self.names())}, and what the modules in `plugins` register."
            )
        return self[name]

    def names(self) -> list[str]:
        """All registered names, sorted."""
        return sorted(self)


class ClassRegistry(Registry[Entry[Config]]):
    """Classes of one kind, such as "backbone", by name, each with the dataclass of its options."""

    def register(self, config: type[Config]) -> Callable[[Class], Class]:
        """Class decorator: register a class, as `add` does, under the default of the field `name` of its options
        `config`; ValueError if that is missing."""
        name = next(field.default for field in fields(config) if field.name == "name")  # type: ignore[arg-type]
        if not isinstance(name, str):
            raise ValueError(f"{config.__name__}.name must have a default: the name of the {self.kind}")

        # A plain dataclass inherits the serializer of its base, which knows no other options.
        config.__pydantic_serializer__ = TypeAdapter(config).serializer  # type: ignore[attr-defined]

        def decorate(cls: Class) -> Class:
            self.add(name, Entry(config, cls), cls)
            return cls

        return decorate
