"""Imports between modules have no cycles, and packages build on each other in one order."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "decision_rnn"
SOURCES = {
    ".".join(("decision_rnn", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def imports(module: str) -> Iterator[str]:
    """The package's own modules that a module imports, anywhere in it: in functions and for type checks too."""
    for node in ast.walk(ast.parse(SOURCES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in SOURCES)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                if submodule in SOURCES:
                    yield submodule
                elif node.module in SOURCES:
                    yield node.module


IMPORTS = {module: sorted(set(imports(module))) for module in SOURCES}


ORDER = (
    "utils",
    "environments",
    "data",
    "backbones",
    "agent",
    "config",
    "runs",
    "evaluation",
    "training",
    "deploy",
    "comparison",
    "cli",
)


def test_packages_import_only_from_those_before_them() -> None:
    place = {name: index for index, name in enumerate(ORDER)}
    edges = {(a, b) for a, names in IMPORTS.items() for b in names if "." in a and "." in b}
    wrong = [(a, b) for a, b in edges if place.get(a.split(".")[1], 99) < place.get(b.split(".")[1], 0)]
    assert not wrong


def test_imports_have_no_cycles() -> None:
    """A package's __init__ imports its modules, so that only modules outside the package may import from it."""
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as error:
        pytest.fail(f"circle: {' <- '.join(error.args[1])}")
