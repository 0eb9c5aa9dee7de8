"""What the page needs besides our own files: MuJoCo and onnxruntime as WebAssembly, from the npm registry.

They are fetched once into the cache. Their versions are pinned by the registry's own checksums: change both together.
"""

import base64
import hashlib
import io
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path

from decision_rnn.data.cache import cache_root
from decision_rnn.utils.errors import InputError, cannot_write
from decision_rnn.utils.files import new_directory
from decision_rnn.utils.messages import bar

REGISTRY = "https://registry.npmjs.org"
REGISTRY_KEY = "npm_config_registry"
"""The environment variable, in lower or upper case, by which npm takes another registry."""


@dataclass(frozen=True)
class Runtime:
    """A package of the npm registry.

    Attributes:
        name: Its name there.
        integrity: The checksum of its tarball, as npm writes it.
        files: The files of it that the page needs.
    """

    name: str
    version: str
    licence: str
    url: str
    integrity: str
    files: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """The folder in the cache that holds its files."""
        return cache_root() / "browser" / f"{self.name.replace('/', '-')}-{self.version}"

    @property
    def path(self) -> str:
        """The place of its tarball in a registry."""
        return f"{self.name}/-/{self.name.rpartition('/')[2]}-{self.version}.tgz"


RUNTIMES = (
    Runtime(
        "@mujoco/mujoco",
        "3.14.0",
        "Apache-2.0",
        "https://github.com/google-deepmind/mujoco",
        "sha512-WPUYidu4Fx8+uM4hQv80SOA0ifpWGrsNJguKs8JBV8SCTxjKQ2/rqsh880nUH0/Vwa8vuefghvCQkkoed3bkUg==",
        ("mujoco.js", "mujoco.wasm"),
    ),
    Runtime(
        "onnxruntime-web",
        "1.30.0",
        "MIT",
        "https://github.com/microsoft/onnxruntime",
        "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ==",
        ("dist/ort.wasm.min.mjs", "dist/ort-wasm-simd-threaded.mjs", "dist/ort-wasm-simd-threaded.wasm"),
    ),
)


def runtime_files() -> list[Path]:
    """The files of all runtimes, fetched if they are not in the cache.

    Raises:
        InputError: If they cannot be fetched or written, or a checksum is another.
    """
    for runtime in RUNTIMES:
        if not runtime.folder.exists():
            _fetch(runtime)
    return [runtime.folder / Path(file).name for runtime in RUNTIMES for file in runtime.files]


def _fetch(runtime: Runtime) -> None:
    """Download a runtime and put its files into the cache, whole or not at all."""
    import pooch  # here: slow, and only needed once

    given = {key.lower(): value for key, value in os.environ.items()}
    url = f"{(given.get(REGISTRY_KEY) or REGISTRY).rstrip('/')}/{runtime.path}"
    label, data = f"{runtime.name} {runtime.version}", io.BytesIO()
    try:
        shown = bar(total=1, desc=label, unit="B", unit_scale=True)
        pooch.HTTPDownloader(shown)(url, data, None)
    except OSError as error:
        raise InputError(
            f"cannot download {label}, which the page needs, from {url} ({error!s:.200}): try again with a network, or "
            f"name another npm registry in the environment variable {REGISTRY_KEY}"
        ) from None
    found = "sha512-" + base64.b64encode(hashlib.sha512(data.getvalue()).digest()).decode()
    if found != runtime.integrity:
        raise InputError(
            f"{url} is not {label} as it was published (its checksum is {found:.20}..., not "
            f"{runtime.integrity:.20}...): try again, or name another npm registry in the environment variable "
            f"{REGISTRY_KEY}"
        )
    data.seek(0)
    try:
        with new_directory(runtime.folder) as new, tarfile.open(fileobj=data) as archive:
            for file in runtime.files:
                member = archive.extractfile(f"package/{file}")
                assert member is not None  # the checksum is that of a tarball that has it
                (new / Path(file).name).write_bytes(member.read())
    except OSError as error:
        raise cannot_write(runtime.folder, error) from None
