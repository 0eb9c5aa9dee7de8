"""Sources of datasets: the registry, and a source from a user's plugin."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from guide import example

from decision_rnn.data.dataset import dataset_names, is_ready, open_dataset
from decision_rnn.data.sources import SOURCES, Source, register_source
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.plugins import import_plugins

MYSOURCE = example("mysource.py")


@pytest.fixture
def mysource(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder with mysource.py, whose registration is undone afterwards."""
    (folders / "mysource.py").write_text(MYSOURCE)
    monkeypatch.chdir(folders)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield folders
    SOURCES.pop("toy", None)
    sys.modules.pop("mysource", None)


def test_custom_source_is_registered_by_a_plugin(mysource: Path) -> None:
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
    with pytest.raises(InputError, match="--path"):
        open_dataset("toy/three", path="x.hdf5")


def test_store_of_custom_source_is_rebuilt_if_its_data_change(
    mysource: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import_plugins(["mysource"])
    assert open_dataset("toy/three").store.num_episodes == 3
    assert open_dataset("toy/three").store.num_episodes == 3
    assert capfd.readouterr().err == ""
    sys.modules["mysource"].EPISODES["toy/three"] = 2
    assert open_dataset("toy/three").store.num_episodes == 2
    assert "making it again" in capfd.readouterr().err


def test_taken_prefix_is_refused() -> None:
    with pytest.raises(ValueError, match="local"):
        register_source(type(SOURCES["local"]))
    assert list(SOURCES) == ["standin", "memory", "d4rl", "ogbench", "minari", "local", "episodes"]


def test_source_without_required_members_is_refused() -> None:
    class Half(Source):
        prefix = "half"

        def names(self) -> list[str]:
            return []

    with pytest.raises(TypeError, match=r"Half .*open"):
        register_source(Half)
    assert "half" not in SOURCES
