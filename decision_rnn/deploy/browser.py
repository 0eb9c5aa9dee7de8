"""A page on which agents play in a browser, as a folder for any static host, and a server for it on this machine.

index.html, style.css, *.js    the page; nothing in it is compiled
page.json                      what is played: the files, names and metadata of the agents, the environment, the seed
policy.onnx, policy-2.onnx ... the agents, as `decision-rnn export` writes them
body.xml                       the body, from the installed gymnasium
runtimes/, licences/           MuJoCo and onnxruntime as WebAssembly, and the licences of what is not ours

The runtimes come from the npm registry, once, into the cache.
"""

import base64
import contextlib
import functools
import http.server
import importlib.metadata
import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from decision_rnn.data.cache import cache_root
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.environments.playing import step_limit, time_limit
from decision_rnn.environments.registry import make_environment
from decision_rnn.evaluation.actor import ExportedPolicy
from decision_rnn.evaluation.evaluate import evaluation_environment, step_limits
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.utils.download import download
from decision_rnn.utils.errors import InputError, importing
from decision_rnn.utils.files import check_destination, new_directory
from decision_rnn.utils.parsing import AUTO

SITE = Path(__file__).parent / "site"
RUNTIMES = json.loads(SITE.with_name("runtimes.json").read_text())
"""Packages of the npm registry: their files that the page needs, and their tarballs' checksums as npm writes them."""
BODIES = ("Hopper-v5", "Walker2d-v5", "HalfCheetah-v5")
"""The environments that site/environment.js has."""
BODY = {"name": "the body from Gymnasium", "licence": "MIT", "url": "https://github.com/Farama-Foundation/Gymnasium"}


class Subject(NamedTuple):
    """An agent for the page, or an exported policy, and its name or file as the user gave it."""

    name: str
    trained: TrainedAgent | ExportedPolicy


def write_page(
    folder: Path, subjects: Sequence[Subject], target_return: float | None = None, seed: int | None = None
) -> None:
    """Write the page of agents of one environment into a new folder. It begins with the target return and the seed; if
    left out, with the first agent's default and that of its evaluation.

    Raises:
        InputError: If the folder exists, an agent acts in an environment that the page does not have or in another than
            the first, or cannot be exported, the runtimes cannot be fetched, or the extra `onnx` is missing.
    """
    with importing("a page for a browser", "onnx"):
        import onnxruntime  # noqa: F401

        from decision_rnn.deploy.runtime import Policy
    check_destination(folder)
    first = subjects[0].trained
    environment_ids = [evaluation_environment(agent.config.evaluation, agent.provenance) for _, agent in subjects]
    for subject, environment_id in zip(subjects, environment_ids, strict=True):
        if environment_id not in BODIES or environment_id != environment_ids[0]:
            raise InputError(
                f"{subject.name} acts in {environment_id}. A page shows agents of one environment, of "
                f"{', '.join(BODIES)}: write a video instead with --video episode.mp4"
            )
    tarballs = [fetch(runtime) for runtime in RUNTIMES]
    settings = first.config.evaluation
    with contextlib.closing(make_environment(environment_ids[0])) as environment:
        body: Any = environment.unwrapped
        limits = time_limit(environment), step_limit(environment, *step_limits(settings, first.provenance))
    agents: list[dict[str, Any]] = []
    for number, (_, agent) in enumerate(subjects, 1):
        mask, name = agent.config.observation.mask, f"{agent.config.backbone.name} of {agent.provenance.name}"
        if mask != "none":
            name += f", {mask} hidden"
        if len(subjects) > 1:
            name = f"{number}. {name}"
        agents.append({"policy": "policy.onnx" if number == 1 else f"policy-{number}.onnx", "name": name})
    content = {
        "environment_id": environment_ids[0],
        "steps": min(filter(None, limits)),
        "seed": settings.seed if seed is None else seed,
        "target_return": "auto" if target_return == AUTO else target_return,
        "agents": agents,
        "vendored": [*RUNTIMES, {**BODY, "version": importlib.metadata.version("gymnasium")}],
    }
    with new_directory(folder) as new:
        shutil.copytree(SITE, new, dirs_exist_ok=True)
        shutil.copyfile(body.fullpath, new / "body.xml")
        for name, data in _vendored(tarballs):
            (new / name).parent.mkdir(exist_ok=True)
            (new / name).write_bytes(data)
        for subject, entry in zip(subjects, agents, strict=True):
            file = new / entry["policy"]
            if isinstance(subject.trained, TrainedAgent):
                export_onnx(subject.trained, file)
            else:
                shutil.copyfile(subject.name, file)
            entry["metadata"] = Policy.load(file).metadata
        (new / "page.json").write_text(json.dumps(content, indent=1))


def fetch(runtime: dict[str, Any]) -> Path:
    """The tarball of a runtime, downloaded unless it is in the cache; InputError if the download fails or its checksum
    differs."""
    file = "{}-{version}.tgz".format(runtime["name"].rpartition("/")[2], **runtime)
    registry = os.environ.get("npm_config_registry", "https://registry.npmjs.org").rstrip("/")  # noqa: SIM112 - as npm
    checksum = f"sha512:{base64.b64decode(runtime['integrity'].removeprefix('sha512-')).hex()}"
    remedy = "Try again with a network, or name another npm registry in the environment variable npm_config_registry."
    return download(cache_root() / "browser" / file, f"{registry}/{runtime['name']}/-/", remedy, checksum)


def server(folder: Path) -> http.server.ThreadingHTTPServer:
    """A server of the folder on the loopback address, at a free port; `serve_forever` starts it."""
    return _Server(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder)))


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a browser that leaves while files are sent closes the connection."""


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def _vendored(tarballs: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    """The files of the runtimes, and the licences that their Python packages bring: path in the page and content."""
    for runtime, tarball in zip(RUNTIMES, tarballs, strict=True):
        with tarfile.open(tarball) as archive:
            for file in runtime["files"]:
                member: Any = archive.extractfile(f"package/{file}")
                yield f"runtimes/{Path(file).name}", member.read()
    packages = importlib.metadata.packages_distributions()  # such as onnxruntime of onnxruntime-gpu
    for module in ("mujoco", "onnxruntime", "gymnasium"):
        for path in importlib.metadata.files(packages[module][0]) or ():
            if re.match(r"licen[cs]e|thirdpartynotices", path.name, re.IGNORECASE):
                yield f"licences/{module}-{path.stem}.txt", path.read_binary()
