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

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
LARGEST = 10_000_000
"""Maximum size of the wheel and of the sdist in bytes."""


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


def tracked(folder: str) -> set[str]:
    """The files of a folder that git tracks."""
    done = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("this is no git checkout")
    return set(done.stdout.split())


def test_sdist_and_checkout_build_the_same_wheel(built: tuple[Path, Path, Path]) -> None:
    _, wheel, direct = built
    assert wheel.name == direct.name
    from_sdist, from_checkout = contents(wheel), contents(direct)
    assert from_sdist.keys() == from_checkout.keys()
    assert [name for name, data in from_sdist.items() if data != from_checkout[name]] == []


def test_sdist_and_wheel_contain_all_tracked_files_and_are_below_10_mb(built: tuple[Path, Path, Path]) -> None:
    sdist, wheel, _ = built
    assert sdist.stat().st_size < LARGEST
    assert wheel.stat().st_size < LARGEST
    packed = {name for name in contents(wheel) if name.startswith("decision_rnn/")}
    assert tracked("decision_rnn") == packed
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert (tracked("decision_rnn") | tracked("tests") | tracked("configs") | tracked("scripts")) <= names


def test_installed_wheel_evaluates_pretrained_agent_outside_the_checkout(
    built: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    """In a virtual environment that sees this one's packages but not its decision_rnn, with a read-only package, no
    dataset and no cache."""
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(site)]
    assert subprocess.run([*install, str(built[1])]).returncode == 0
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    package = site / "decision_rnn"
    for path in package.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    clean |= {"DECISION_RNN_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    work = tmp_path / "work"
    work.mkdir()

    def run(*words: str) -> str:
        done = subprocess.run(
            [str(environment / "bin" / "python"), *words], cwd=work, env=clean, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert Path(run("-c", "import decision_rnn; print(decision_rnn.__file__)").strip()).parent == package
    before = sorted(package.rglob("*"))
    table = run("-m", "decision_rnn", "evaluate", "pretrained/hopper-medium", "--episodes", "2", "--processes", "1")
    assert "mingru on standin/hopper-medium" in table
    assert "not written: pretrained/hopper-medium is no run" in table
    (row,) = (line.split() for line in table.splitlines() if line.endswith("the data's best"))
    assert float(row[4]) > 60  # the normalised score; that of the data is 47
    assert sorted(package.rglob("*")) == before
    assert list(work.iterdir()) == []
    assert not (tmp_path / "cache").exists()
