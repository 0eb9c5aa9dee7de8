"""Checks that an environment implements Gymnasium's interface, with errors that say what it lacks."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium

from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.messages import counted, warn

ADAPTERS = (
    "Wrap it if it has the API of gym before 0.26 (shimmy's GymV21CompatibilityV0, or GymV26CompatibilityV0 after)"
)
OTHER_INTERFACE = re.compile(
    r"unexpected keyword argument '(seed|options)'|required positional argument|values to unpack \(expected [25]"
    "|cannot unpack non-iterable"
)
"""Messages of errors that another interface causes, also in Gymnasium's wrappers."""


def environment_name(environment: Any) -> str:
    """The id of an environment, or the name of its class if it has no id."""
    spec = getattr(environment, "spec", None)
    return getattr(spec, "id", None) or type(getattr(environment, "unwrapped", environment)).__name__


def check_interface(environment: Any) -> None:
    """Raise InputError unless this is a single environment with Gymnasium's spaces, `reset` and `step`."""
    name = environment_name(environment)
    if hasattr(environment, "single_observation_space"):
        raise InputError(f"{name} is a vector of environments: give a single one, such as gymnasium.make returns.")
    for attribute in ("observation_space", "action_space", "reset", "step"):
        value = getattr(environment, attribute, None)
        if value is None or ("space" in attribute and not isinstance(value, gymnasium.Space)):
            kind = "missing" if value is None else f"a {type(value).__module__}.{type(value).__name__}"
            raise InputError(f"the {attribute} of {name} is {kind}, not Gymnasium's. {ADAPTERS}.")


def checked_reset(environment: gymnasium.Env, seed: int | None) -> Any:
    """The observation that `reset` returns; InputError unless it returns an observation and an info dictionary."""
    with reporting_interface(environment, "reset"):
        result: Any = environment.reset(seed=seed)
    if not (isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[1], Mapping | None)):
        raise interface_error(environment, "reset", f"returned {describe_types(result)}, not (observation, info)")
    return result[0]


@contextlib.contextmanager
def reporting_interface(environment: gymnasium.Env, method: str) -> Iterator[None]:
    """Replace the errors of calling an environment that has another interface by InputError."""
    try:
        yield
    except (TypeError, ValueError, NotImplementedError) as error:
        if isinstance(error, NotImplementedError) or OTHER_INTERFACE.search(str(error)):
            raise interface_error(environment, method, f"raised {type(error).__name__}: {one_line(error)}") from error
        raise


def interface_error(environment: gymnasium.Env, method: str, fault: str) -> InputError:
    """The error for a method that differs from Gymnasium's interface."""
    return InputError(f"the {method} of {environment_name(environment)} {fault}. {ADAPTERS}.")


def describe_types(result: Any) -> str:
    """The number and the types of returned values."""
    values = result if isinstance(result, tuple | list) else [result]
    return f"{counted(len(values), 'value')} ({', '.join(type(value).__name__ for value in values)})"


@contextlib.contextmanager
def closing(environment: gymnasium.Env) -> Iterator[gymnasium.Env]:
    """The environment, closed when the block ends; an error of `close` is only a warning, since the work is done."""
    try:
        yield environment
    finally:
        try:
            environment.close()
        except Exception as error:  # the environment's code can raise anything
            warn(
                f"warning: {environment_name(environment)} cannot be closed ({type(error).__name__}: {one_line(error)})"
            )
