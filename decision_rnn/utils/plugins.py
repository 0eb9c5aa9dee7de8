"""Plugins: the user's own modules, which register backbones, sources or environments when imported.

`--plugins layers` imports layers.py from the working folder, or any installed module. Runs and checkpoints record the
names, but loading them imports nothing, so that a file from somebody else does not run code.
"""

import hashlib
import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.messages import shell_join
from decision_rnn.utils.parsing import Names, convert


def import_plugins(names: Iterable[str], where: str = "--plugins") -> None:
    """Import modules by name, from the working folder or as installed; `where` they are named is for messages.

    If there are any, the working folder stays at the end of `sys.path`: a plugin may import its neighbours later, such
    as an environment that Gymnasium imports when it is made.

    Raises:
        InputError: If a module cannot be imported.
    """
    for name in convert(names, Names, "plugins"):
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # the module may raise anything
            hint = ": run in its folder, or add that to PYTHONPATH" * (getattr(error, "name", None) == name)
            message = f"{where}: the module {name!r:.100} cannot be imported ({one_line(error)}){hint}"
            raise InputError(message) from error


def check_plugins(names: Iterable[str]) -> None:
    """InputError unless all modules that a configuration names have been imported; none is imported here."""
    missing = [name for name in names if name not in sys.modules]
    if missing:
        raise InputError(f"it needs modules that are not imported. Add {shell_join('--plugins', ','.join(missing))}.")


def plugin_hashes(names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of each plugin's file, by module name, without plugins that are not imported or whose file is gone."""
    files = {name: Path(getattr(sys.modules.get(name), "__file__", None) or "") for name in names}
    return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items() if file.is_file()}
