"""The wheel and the sdist: complete, identical, and usable outside the checkout."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from guide import ROOT

pytestmark = pytest.mark.slow

LARGEST = 8_000_000
"""Maximum size of the wheel and of the sdist in bytes: 6 MB are the policies that play the stand-ins' episodes."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """The sdist, the wheel built from it, and the wheel built from the checkout."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    for options in (["--outdir", str(folder)], ["--wheel", "--outdir", str(folder / "direct")]):
        done = subprocess.run([sys.executable, "-m", "build", *options, str(ROOT)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    ((sdist,), (wheel,), (direct,)) = (folder.glob(p) for p in ("*.tar.gz", "*.whl", "direct/*.whl"))
    return sdist, wheel, direct


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def tracked(*folders: str) -> set[str]:
    """The files of folders that git tracks."""
    done = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("this is no git checkout")
    return set(done.stdout.split())


def test_sdist_and_wheels_hold_all_tracked_files_and_agree(built: tuple[Path, Path, Path]) -> None:
    sdist, wheel, direct = built
    assert wheel.name == direct.name
    assert contents(wheel) == contents(direct)
    assert max(sdist.stat().st_size, wheel.stat().st_size) < LARGEST
    assert tracked("decision_rnn") == {name for name in contents(wheel) if name.startswith("decision_rnn/")}
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert tracked("decision_rnn", "tests", "configs", "scripts") <= names
    assert {"LICENSE", "CITATION.cff", "CHANGELOG.md"} <= names
    assert not [name for name in names if name.startswith("results")]


def test_package_index_accepts_the_description(built: tuple[Path, Path, Path]) -> None:
    pytest.importorskip("twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_installed_wheel_evaluates_outside_the_checkout(built: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """In a virtual environment that sees this one's packages but not its decision_rnn, with a read-only package, no
    dataset and no cache."""
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(site)]
    assert subprocess.run([*install, str(built[1])]).returncode == 0
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    for path in (site / "decision_rnn").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    clean |= {"DECISION_RNN_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    work = tmp_path / "work"
    work.mkdir()
    before = sorted((site / "decision_rnn").rglob("*"))
    words = ["-m", "decision_rnn", "evaluate", "pretrained/hopper-medium", "--episodes", "2", "--processes", "1"]
    command = [str(environment / "bin" / "python"), *words]
    done = subprocess.run(command, cwd=work, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "mingru on standin/hopper-medium" in done.stdout
    (row,) = (line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["auto"])
    assert float(row[4]) > 60  # the normalised score; that of the data is 47
    assert sorted((site / "decision_rnn").rglob("*")) == before
    assert list(work.iterdir()) == []
    assert not (tmp_path / "cache").exists()
