"""Docstrings for the documentation's Python reference: an extension of griffe, which reads them (mkdocs.yml)."""

import re
from typing import Any

import griffe


class ExampleSections(griffe.Extension):
    """Reads the section that docstrings call Example as what griffe calls Examples: sessions to be shown as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
