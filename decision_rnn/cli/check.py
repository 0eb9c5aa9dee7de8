"""`decision-rnn check`: check a layer against the law of sequence mixers."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from decision_rnn.cli.parser import CommandParser
from decision_rnn.errors import InputError, did_you_mean
from decision_rnn.plugins import import_plugins


def run(arguments: Sequence[str]) -> int:
    """Print the report; returns 0 if the layer obeys the law, 1 if it breaks a clause."""
    command = parser().read(arguments)
    if command.width is not None and command.width < 1:
        raise InputError(f"command line: width is {command.width}: it must be at least 1")
    from decision_rnn.testing import check_mixer  # here: slow, and not needed for `--help`

    report = check_mixer(find_mixer(command.mixer), width=command.width, raise_error=False)
    print(report)
    return 0 if report.obeys else 1


def parser() -> CommandParser:
    """The parser of the command."""
    parser = CommandParser("decision-rnn check")
    parser.add_argument("mixer", type=str, help="a registered backbone, or module.Class from the working folder")
    parser.add_argument("--width", type=int | None, help="channels of its input and output (default: 8)")
    return parser


def find_mixer(name: str) -> Callable[..., Any]:
    """The mixer registered under a name, or a class named as `module.Class`, whose module is imported.

    Raises:
        InputError: If there is no such mixer.
    """
    from decision_rnn.backbones import registered, registered_names

    module, dot, attribute = name.rpartition(".")
    if not dot:
        try:
            return registered(name).cls
        except KeyError as error:
            hint = did_you_mean(name, registered_names()) or "a class of your own is named with its module, layers.Mine"
            raise InputError(f"{error.args[0]:.300}; {hint}") from None
    import_plugins([module], "check")
    mixer = getattr(sys.modules[module], attribute, None)
    if not callable(mixer):
        raise InputError(f"the module {module:.100} has no class {attribute!r:.100}: name one that it defines")
    found: Callable[..., Any] = mixer
    return found
