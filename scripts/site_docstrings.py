"""A griffe extension for the docstrings in the documentation's Python reference (mkdocs.yml)."""

import re
from typing import Any

import griffe


class ExampleSections(griffe.Extension):
    """Renames the docstring section Example to griffe's Examples, so that its sessions are shown as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
