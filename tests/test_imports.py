"""Imports between modules: only from the same or lower rooms, without cycles."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "decision_rnn"
ROOMS = (
    "errors layouts acting messages notebook files interruption machine workers records registry run_files",
    "plugins parsing metrics",
    "backbones.config backbones.time_scales backbones.built_in backbones.resets backbones.contract",
    "backbones.ops",
    "backbones",
    "backbones.stack backbones.matching backbones.__init__",
    "testing",
    "data.store",
    "data",
    "data.sources",
    "data.catalog",
    "data.names",
    "agent",
    "config",
    "config_parser code_hashes",
    "checkpoint",
    "training",
    "deploy.runtime",
    "evaluation",
    "comparison",
    "deploy",
    "plots bench",
    "api",
    "cli __main__",
)
"""From the bottom up: a module imports only from its own room and those below. The names in one string share a room."""

SOURCES = {
    ".".join(("decision_rnn", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def imports(module: str) -> Iterator[str]:
    """The package's own modules that a module imports, anywhere in it except under `if TYPE_CHECKING`, with those that
    the .pyi beside it imports public names from."""
    stub = SOURCES[module].with_suffix(".pyi")
    tree = ast.parse(SOURCES[module].read_text() + (stub.read_text() if stub.is_file() else ""))
    unseen = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in unseen:
            continue
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


def room(module: str) -> int:
    """The index in ROOMS of a module: that of the longest name which is a prefix of its path."""
    path = module.removeprefix("decision_rnn.") + (".__init__" if SOURCES[module].name == "__init__.py" else "")
    floors = {name: floor for floor, names in enumerate(ROOMS) for name in names.split()}
    homes = [name for name in floors if path == name or path.startswith(f"{name}.")]
    assert homes, f"{module} has no place in ROOMS"
    return floors[max(homes, key=len)]


IMPORTS = {module: sorted(set(imports(module))) for module in SOURCES if module != "decision_rnn"}


@pytest.mark.parametrize("module", IMPORTS)
def test_modules_import_only_from_their_own_or_lower_rooms(module: str) -> None:
    above = [name for name in IMPORTS[module] if name != "decision_rnn" and room(name) > room(module)]
    assert not above, f"{module} imports {above}, which stand above it"
    assert "decision_rnn" not in IMPORTS[module] or module.startswith("decision_rnn.cli"), (
        "names have homes of their own"
    )


def test_imports_have_no_cycles() -> None:
    """A package's __init__ imports its modules, so that only modules outside the package may import from it."""
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as error:
        pytest.fail(f"circle: {' <- '.join(error.args[1])}")


def test_data_does_not_import_layers_or_agent() -> None:
    """Only where resets fall, which a batch carries for the layers."""
    for module, names in IMPORTS.items():
        if module.startswith("decision_rnn.data"):
            others = [name for name in names if name.startswith(("decision_rnn.backbones", "decision_rnn.agent"))]
            assert set(others) <= {"decision_rnn.backbones.resets"}, f"{module} imports {others}"


def test_backbones_import_only_the_registry_from_the_rest_of_the_package() -> None:
    for module, names in IMPORTS.items():
        if module.startswith("decision_rnn.backbones"):
            allowed = ("decision_rnn.backbones", "decision_rnn.registry")
            others = [name for name in names if not name.startswith(allowed)]
            assert not others, f"{module} imports {others}"


@pytest.mark.parametrize(
    "module",
    [
        "decision_rnn",
        "decision_rnn.agent",
        "decision_rnn.api.comparing",
        "decision_rnn.backbones",
        "decision_rnn.cli.main",
        "decision_rnn.cli.report",
        "decision_rnn.config_parser",
        "decision_rnn.data.standin.collection",
        "decision_rnn.deploy",
    ],
)
def test_fast_starting_modules_do_not_import_torch(module: str) -> None:
    code = f"import {module}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
