"""Sources of datasets: the registry, a source from a user's plugin, and malicious names."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from data_files import hopper_episodes
from guide import example

from decision_rnn import write_store
from decision_rnn.data.dataset import dataset_names, is_ready, open_dataset
from decision_rnn.data.sources import SOURCES, register_source
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.plugins import import_plugins

TEXTS = ("", "..", "../../x", "/etc/passwd", "./", "//", "\0", "a\nb", "%s{}$HOME", "é\U0001f4a3", "*", "a/b", ".x")


@pytest.fixture
def mysource(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder with mysource.py, whose registration is undone afterwards."""
    (folders / "mysource.py").write_text(example("mysource.py"))
    monkeypatch.chdir(folders)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield folders
    SOURCES.pop("toy", None)
    sys.modules.pop("mysource", None)


def test_custom_source_is_registered_by_a_plugin(mysource: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=r"unknown dataset 'toy/three': .*--plugins MODULE"):
        open_dataset("toy/three")
    import_plugins(["mysource"])
    assert {"toy/three", "toy/thirty"} <= set(dataset_names())
    assert not is_ready("toy/three")
    dataset = open_dataset("toy/three")
    store = dataset.store
    assert (len(store), store.steps, is_ready("toy/three")) == (3, 600, True)
    assert store.path.is_relative_to(mysource / "cache")
    assert float(dataset.spec.normalised(-150.0)) == 100
    with pytest.raises(InputError, match="toy/three"):
        open_dataset("toy/four")
    assert capfd.readouterr().err == ""
    sys.modules["mysource"].EPISODES["toy/three"] = 2  # it is made again if its data change
    assert open_dataset("toy/three").store.num_episodes == 2
    assert "making it again" in capfd.readouterr().err


def test_file_in_place_of_a_name_is_to_be_imported(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders)
    (folders / "carts.csv").write_text("x,u\n1,2\n")
    with pytest.raises(InputError, match=r"data import carts\.csv"):
        open_dataset("carts.csv")


def test_taken_prefix_is_refused_and_sources_are_listed_in_order() -> None:
    with pytest.raises(ValueError, match="local"):
        register_source(type("Other", (type(SOURCES["local"]),), {}))
    assert list(SOURCES) == ["standin", "memory", "d4rl", "ogbench", "ocbench", "minari", "local", "episodes"]
    assert len(SOURCES["d4rl"].names()) == 24


@pytest.mark.parametrize(
    "prefix", ["", "d4rl/", "minari/", "local/", "standin/", "memory/", "ogbench/", "ocbench/", "complete/"]
)
def test_hostile_names_raise_and_make_nothing(prefix: str, folders: Path) -> None:
    for text in TEXTS:
        with pytest.raises(InputError):
            open_dataset(prefix + text)
        if prefix == "local/":
            with pytest.raises(InputError, match="unknown dataset"):
                write_store(prefix + text, hopper_episodes())
    assert list(folders.iterdir()) == []
