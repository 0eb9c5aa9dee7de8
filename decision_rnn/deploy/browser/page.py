"""The page as a folder for any static host, and a server for it on this machine.

index.html, style.css, *.js    the page; nothing in it is compiled
page.json                      what is played: the files and names of the agents, the environment, the seed
policy.onnx, policy-2.onnx ... the agents, as `decision-rnn export` writes them
body.xml                       the body, from the installed gymnasium
runtimes/, licences/           MuJoCo and onnxruntime as WebAssembly, and the licences of what is not ours
"""

import contextlib
import functools
import http.server
import importlib.metadata
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from decision_rnn.deploy.browser.runtimes import RUNTIMES, runtime_files
from decision_rnn.deploy.hub import ONNX
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.environments.playing import step_limit, time_limit
from decision_rnn.environments.registry import make_environment
from decision_rnn.evaluation.actor import EvaluatedPolicy
from decision_rnn.evaluation.evaluate import evaluation_environment, step_limits
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError, cannot_write
from decision_rnn.utils.files import check_folder, new_directory
from decision_rnn.utils.parsing import AUTO

SITE = Path(__file__).parent / "site"
BODIES = ("Hopper-v5", "Walker2d-v5", "HalfCheetah-v5")
"""The environments that site/environment.js has."""
LICENSED = ("mujoco", "onnxruntime", "gymnasium")
"""The modules whose installed packages, such as onnxruntime-gpu, have the licences of the runtimes and of the body."""
TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".json": "application/json"}


class Subject(NamedTuple):
    """An agent for the page: its name as the user gave it, and the agent, or an exported policy and its file."""

    name: str
    trained: TrainedAgent | EvaluatedPolicy
    file: Path


def write_page(
    folder: Path,
    subjects: Sequence[Subject],
    target_return: float | None = None,
    seed: int | None = None,
) -> None:
    """Write the page of some agents.

    Args:
        folder: The folder to create, which must not exist.
        subjects: The agents, which act in the same environment.
        target_return: The target return that the page begins with; if left out, the first agent's default.
        seed: The seed that it begins with; if left out, that of the first agent's evaluation.

    Raises:
        InputError: If the folder exists or cannot be written, an agent acts in an environment that the page does not
            have or in another than the first, cannot be exported, or the runtimes cannot be fetched.
    """
    if folder.exists():
        raise InputError(f"{folder} is there already: remove it, or choose another --output")
    environments = [_environment_of(subject) for subject in subjects]
    for subject, environment_id in zip(subjects, environments, strict=True):
        if environment_id != environments[0]:
            raise InputError(
                f"{subject.name} acts in {environment_id} and {subjects[0].name} in {environments[0]}: a page shows "
                "agents of one environment"
            )
    runtimes, first = runtime_files(), subjects[0].trained
    files = [ONNX, *(f"policy-{number}.onnx" for number in range(2, len(subjects) + 1))]
    settings = first.config.evaluation
    with contextlib.closing(make_environment(environments[0])) as made:
        body: Any = made.unwrapped
        model = Path(body.fullpath)
        limits = time_limit(made), step_limit(made, *step_limits(settings, first.provenance))
    content = {
        "environment_id": environments[0],
        "steps": min(filter(None, limits)),
        "seed": settings.seed if seed is None else seed,
        "target_return": None if target_return == AUTO else target_return,
        "agents": [{"policy": file, "name": name} for file, name in zip(files, _labels(subjects), strict=True)],
        "vendored": [
            *({key: asdict(runtime)[key] for key in ("name", "version", "licence", "url")} for runtime in RUNTIMES),
            {
                "name": "the body from Gymnasium",
                "version": importlib.metadata.version("gymnasium"),
                "licence": "MIT",
                "url": "https://github.com/Farama-Foundation/Gymnasium",
            },
        ],
    }
    try:
        check_folder(folder)
        with new_directory(folder) as new:
            shutil.copytree(SITE, new, dirs_exist_ok=True)
            (new / "page.json").write_text(json.dumps(content, indent=1))
            shutil.copyfile(model, new / "body.xml")
            for kind in ("runtimes", "licences"):
                (new / kind).mkdir()
            for path in runtimes:
                shutil.copyfile(path, new / "runtimes" / path.name)
            for name, text in _licences():
                (new / "licences" / name).write_bytes(text)
            for subject, file in zip(subjects, files, strict=True):
                if isinstance(subject.trained, TrainedAgent):
                    export_onnx(subject.trained, new / file)
                else:
                    shutil.copyfile(subject.file, new / file)
    except OSError as error:
        raise cannot_write(folder, error) from None


def server(folder: Path) -> http.server.ThreadingHTTPServer:
    """A server of the folder on the loopback address, at a free port; `serve_forever` starts it."""
    return _Server(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder)))


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a browser that leaves while files are sent closes the connection."""


class _Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, **TYPES}  # noqa: RUF012 - as inherited

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def _environment_of(subject: Subject) -> str:
    environment_id = evaluation_environment(subject.trained.config.evaluation, subject.trained.provenance)
    if environment_id not in BODIES:
        raise InputError(
            f"{subject.name} acts in {environment_id}, and the page has {', '.join(BODIES[:-1])} and {BODIES[-1]}: "
            "write a video instead with --video episode.mp4"
        )
    return environment_id


def _labels(subjects: Sequence[Subject]) -> list[str]:
    """A name for each agent, without paths of this machine; numbered if there are several."""
    names = []
    for _, trained, _ in subjects:
        mask = trained.config.observation.mask
        hidden = "" if mask == "none" else f", {mask} hidden"
        names.append(f"{trained.config.backbone.name} of {trained.provenance.name}{hidden}")
    return names if len(names) == 1 else [f"{number}. {name}" for number, name in enumerate(names, 1)]


def _licences() -> Iterator[tuple[str, bytes]]:
    """The licences of what is vendored, as their Python packages bring them: a file's name and content."""
    packages = importlib.metadata.packages_distributions()
    for module in LICENSED:
        for path in importlib.metadata.files(packages[module][0]) or ():
            if re.match(r"licen[cs]e|thirdpartynotices", path.name, re.IGNORECASE):
                yield f"{module}-{path.stem}.txt", path.read_binary()
