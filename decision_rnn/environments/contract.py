"""What is needed of environments that others have written: Gymnasium's interface, checked where one is entered."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium

from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.messages import counted, warn

OLDER = "Wrap it if it has the API of gym before 0.26 (shimmy's GymV21CompatibilityV0, or GymV26CompatibilityV0 after)"
OTHER_INTERFACE = re.compile(
    r"unexpected keyword argument '(seed|options)'|values to unpack \(expected [25]|cannot unpack non-iterable"
)
"""Errors of calling an environment of another interface, also from Gymnasium's wrappers around it."""


def name_of(environment: Any) -> str:
    """The id of an environment; the name of its class if it was made by none."""
    spec = getattr(environment, "spec", None)
    return getattr(spec, "id", None) or type(getattr(environment, "unwrapped", environment)).__name__


def check_interface(environment: Any) -> None:
    """Raise InputError unless an environment is a single one, with spaces of Gymnasium and the methods to play it."""
    name = name_of(environment)
    if hasattr(environment, "single_observation_space"):
        raise InputError(f"{name} is a vector of environments: give a single one, such as gymnasium.make returns.")
    for attribute in ("observation_space", "action_space", "reset", "step"):
        value = getattr(environment, attribute, None)
        if value is None or ("space" in attribute and not isinstance(value, gymnasium.Space)):
            kind = "missing" if value is None else f"a {type(value).__module__}.{type(value).__name__}"
            raise InputError(f"the {attribute} of {name} is {kind}, not Gymnasium's. {OLDER}.")


def first_observation(environment: gymnasium.Env, seed: int | None) -> Any:
    """What `reset(seed)` returns of an observation; InputError if it returns no pair of observation and info."""
    with entering(environment, "reset"):
        result: Any = environment.reset(seed=seed)
    if not (isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[1], Mapping | None)):
        raise unlike(environment, "reset", f"returned {kinds(result)}, not (observation, info)")
    return result[0]


@contextlib.contextmanager
def entering(environment: gymnasium.Env, method: str) -> Iterator[None]:
    """InputError in place of the errors of calling an environment of another interface."""
    try:
        yield
    except (TypeError, ValueError, NotImplementedError) as error:
        if isinstance(error, NotImplementedError) or OTHER_INTERFACE.search(str(error)):
            raise unlike(environment, method, f"raised {type(error).__name__}: {one_line(error)}") from error
        raise


def unlike(environment: gymnasium.Env, method: str, fault: str) -> InputError:
    """The error for a method that is not that of Gymnasium's interface."""
    return InputError(f"the {method} of {name_of(environment)} {fault}. {OLDER}.")


def kinds(result: Any) -> str:
    """The number and the types of returned values."""
    values = result if isinstance(result, tuple | list) else [result]
    return f"{counted(len(values), 'value')} ({', '.join(type(value).__name__ for value in values)})"


@contextlib.contextmanager
def closing(environment: gymnasium.Env) -> Iterator[gymnasium.Env]:
    """The environment, closed when the block ends; a warning if it cannot be, since what it was opened for is done."""
    try:
        yield environment
    finally:
        try:
            environment.close()
        except Exception as error:  # the environment's code can raise anything
            warn(f"warning: {name_of(environment)} cannot be closed ({type(error).__name__}: {one_line(error)})")
