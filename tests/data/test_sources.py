"""Sources of datasets: the registry, and one in a file of the user's own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from decision_rnn.data.catalog import names, resolve
from decision_rnn.data.sources import SOURCES, Source, register_source
from decision_rnn.errors import InputError
from decision_rnn.plugins import import_plugins

MYSOURCE = '''
from pathlib import Path

import numpy as np

from decision_rnn import DatasetSpec, EpisodeStore, InputError, Source, open_or_make, play_episodes, register_source

EPISODES = {"toy/three": 3, "toy/thirty": 30}


@register_source
class Toy(Source):
    """Episodes of Pendulum in which nobody pushes."""

    prefix = "toy"
    pattern = "toy/NUMBER"

    def names(self) -> list[str]:
        return list(EPISODES)

    def spec(self, name: str) -> DatasetSpec:
        if name not in EPISODES:
            raise InputError(f"unknown dataset {name!r}: known are {', '.join(EPISODES)}")
        return DatasetSpec(
            name,
            environment_id="Pendulum-v1",
            reference_min=-1200.0,  # scores 0
            reference_max=-150.0,  # scores 100
            target_returns=(-150.0, -600.0),
            return_scale=1000.0,
            comparable="the data are a toy: compare with scores on it",
        )

    def open(self, name: str, progress: bool, path: Path | None) -> EpisodeStore:
        spec = self.spec(name)
        if path is not None:
            raise InputError(f"{name} is played here and read from no file: leave out --path")
        source = {"episodes": EPISODES[name]}  # what the store is made from: from something else it is made again

        def make(folder: Path) -> EpisodeStore:
            episodes = play_episodes(spec.environment_id, lambda observation: np.zeros(1), EPISODES[name])
            return EpisodeStore.write(folder, episodes, environment_id=spec.environment_id, source=source)

        return open_or_make(name, source, make)
'''


@pytest.fixture
def mysource(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder one works in, with mysource.py; what it registers is forgotten afterwards."""
    (folders / "mysource.py").write_text(MYSOURCE)
    monkeypatch.chdir(folders)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    yield folders
    SOURCES.pop("toy", None)


def test_a_source_of_the_users_own_is_a_plugin(mysource: Path) -> None:
    with pytest.raises(InputError, match=r"unknown dataset 'toy/three': .*--plugins MODULE"):
        resolve("toy/three")
    import_plugins(["mysource"])
    assert {"toy/three", "toy/thirty"} <= set(names())
    dataset = resolve("toy/three")
    assert not dataset.ready
    store = dataset.open(progress=False)
    assert (store.episodes, store.steps, dataset.ready) == (3, 600, True)
    assert store.path == mysource / "cache" / "stores" / "toy" / "three"
    assert float(dataset.spec.normalised(-150.0)) == 100
    with pytest.raises(InputError, match="known are toy/three, toy/thirty"):
        resolve("toy/four").open()
    with pytest.raises(InputError, match="leave out --path"):
        resolve("toy/three", path="x.hdf5").open()
    with pytest.raises(InputError, match="toy/three is not downloaded"):
        dataset.download()


def test_a_store_of_the_users_own_source_is_made_again_from_something_else(
    mysource: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import_plugins(["mysource"])
    assert resolve("toy/three").open(progress=False).episodes == 3
    assert resolve("toy/three").open(progress=False).episodes == 3
    assert capfd.readouterr().err == ""
    sys.modules["mysource"].EPISODES["toy/three"] = 2
    assert resolve("toy/three").open(progress=False).episodes == 2
    assert "making it again" in capfd.readouterr().err


def test_a_prefix_is_registered_once() -> None:
    for prefix in ("own", "complete"):  # the latter is where stores without partial episodes lie
        with pytest.raises(ValueError, match=rf"prefix '{prefix}', which is taken: registered are standin, d4rl"):
            register_source(type("Mine", (type(SOURCES["own"]),), {"prefix": prefix}))
    assert list(SOURCES) == ["standin", "d4rl", "minari", "own"]


@pytest.mark.parametrize("prefix", ["", "a/b", "A", "..", "a b"])
def test_a_prefix_is_a_word(prefix: str) -> None:
    with pytest.raises(ValueError, match="must be a lower-case word"):
        register_source(type("Mine", (type(SOURCES["own"]),), {"prefix": prefix}))


def test_what_a_source_lacks_is_named() -> None:
    class Half(Source):
        prefix = "half"

        def names(self) -> list[str]:
            return []

    with pytest.raises(ValueError, match=r"source Half has no pattern, open, spec: derive it from Source"):
        register_source(Half)
    assert "half" not in SOURCES
