"""Agents by name: in a folder, shipped with the package, or on the Hugging Face Hub.

A repository is treated as data: none of its code is run, and only the files of an agent are downloaded.
"""

import contextlib
import importlib.resources
import json
import re
from pathlib import Path
from types import ModuleType

from decision_rnn.checkpoint import DESCRIPTION, WEIGHTS, last_checkpoint
from decision_rnn.errors import InputError, did_you_mean

ONNX, CARD, CLIP, RESULTS = "policy.onnx", "README.md", "replay.mp4", "results"
FILES = (DESCRIPTION, WEIGHTS, ONNX, CARD, CLIP, f"{RESULTS}/*.json")
"""The files that a packaged agent may contain; nothing else is downloaded from a repository or uploaded to it."""
RUNS, PRETRAINED = "runs", "pretrained"
HUB_ID = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?", re.ASCII)
"""`org/name`, optionally followed by `@` and a revision."""


def find_agent(name: str | Path) -> Path:
    """Find the folder of an agent, for `checkpoint.load_agent`.

    Args:
        name: In the order in which they are looked for: the folder of a run (its last checkpoint is used), of a
            checkpoint or of a packaged agent; an agent shipped with the package, such as `pretrained/hopper-medium`; or
            an id on the Hugging Face Hub, `org/name` or `org/name@revision`, which is downloaded into the hub's cache.
            A name that looks like a path, because it begins with `runs/` or there is a folder `org`, is never looked
            for on the hub, unless it names a revision (branch, tag or commit).

    Raises:
        InputError: If there is no agent of that name, or it cannot be downloaded: the extra `hub` is not installed,
            there is no network or no permission, or the repository holds no agent of decision_rnn.
    """
    name = str(name)
    folder = Path(name)
    if folder.is_dir():
        return _in_folder(folder)
    if folder.exists():
        raise InputError(f"{name} is a file: name the folder of a run, of a checkpoint or of a packaged agent")
    shipped = [f"{PRETRAINED}/{agent}" for agent in pretrained_agents()]
    if name.rstrip("/") in shipped:
        return _package_root() / folder
    match = HUB_ID.fullmatch(name)
    if match and (match[2] or not (folder.parts[0] in (RUNS, PRETRAINED) or folder.parent.exists())):
        return _fetched(match[1], match[2])
    known = [*shipped, *_folders_in(folder.parent), *_folders_in(Path(RUNS))]
    raise InputError(
        f"there is no run {name}: {did_you_mean(str(folder), known)}name the folder of a run, of a checkpoint or of a "
        f"packaged agent, {' or '.join(shipped)}, or {_on_hub(folder)}"
    )


def pretrained_agents() -> list[str]:
    """The names of the agents shipped with the package, without `pretrained/`."""
    return sorted(path.parent.name for path in (_package_root() / PRETRAINED).glob(f"*/{DESCRIPTION}"))


def push_to_hub(folder: str | Path, repo_id: str, private: bool = False, message: str | None = None) -> str:
    """Upload a packaged agent to the Hugging Face Hub, creating the repository if it does not exist.

    An agent already in the repository is replaced, including those of its files that the new one lacks; files that
    belong to no agent are kept.

    Args:
        folder: Folder of a packaged agent, as written with `decision-rnn package`.
        repo_id: `org/name`.
        private: Whether a newly created repository is visible to its owners only.
        message: The commit message.

    Returns:
        The URL of the commit.

    Raises:
        InputError: If the folder holds no packaged agent, you are not logged in, or the upload fails.
    """
    folder = Path(folder)
    check_repo_id(repo_id)
    if not is_packaged(folder):
        raise InputError(
            f"{folder} is not a packaged agent (it has no {CARD} beside {DESCRIPTION} and {WEIGHTS}): make one with "
            "`decision-rnn package RUN`"
        )
    hub = _import_hub(f"to push to {repo_id}")
    try:
        hub.create_repo(repo_id, private=private, exist_ok=True)
        done = hub.upload_folder(
            repo_id=repo_id,
            folder_path=str(folder),
            allow_patterns=list(FILES),
            delete_patterns=list(FILES),  # results and video of the previous weights
            commit_message=message or "Upload an agent of decision_rnn",
        )
    except Exception as error:  # from huggingface_hub or its HTTP client
        raise InputError(f"the Hugging Face Hub does not take {repo_id}: {_reason(error, hub)}") from None
    return str(done)


def check_repo_id(repo_id: str) -> None:
    """Raise InputError if this is not the id of a repository on the hub."""
    match = HUB_ID.fullmatch(repo_id)
    if not match or match[2]:
        raise InputError(f"{repo_id!r:.100} is not a repository on the Hugging Face Hub: name one as org/name")


def is_packaged(folder: Path) -> bool:
    """Whether a folder holds a packaged agent: an agent with its model card."""
    return all((folder / file).is_file() for file in (DESCRIPTION, WEIGHTS, CARD))


def _in_folder(folder: Path) -> Path:
    if (folder / "config.yaml").is_file():
        return last_checkpoint(folder)
    if (folder / DESCRIPTION).is_file() or (folder / WEIGHTS).is_file():
        return folder  # load_agent reports missing files
    raise InputError(
        f"{folder} is not a run folder (it has no config.yaml) and holds no agent ({DESCRIPTION} and {WEIGHTS}): name "
        f"a folder that `decision-rnn train` or `decision-rnn package` made, or {_on_hub(folder)}"
    )


def _on_hub(folder: Path) -> str:
    """How to name a repository on the hub instead of a folder."""
    name = f"{folder}@main" if HUB_ID.fullmatch(str(folder)) else "org/name"
    return f"a repository on the Hugging Face Hub, {name}"


def _folders_in(parent: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return [str(folder) for folder in parent.iterdir() if folder.is_dir()]
    return []


def _package_root() -> Path:
    return Path(str(importlib.resources.files("decision_rnn")))


def _fetched(repo_id: str, revision: str | None) -> Path:
    name = repo_id if revision is None else f"{repo_id}@{revision}"
    hub = _import_hub(f"there is no folder {name}, and to fetch it from the Hugging Face Hub")
    try:
        folder = Path(hub.snapshot_download(repo_id, revision=revision, allow_patterns=list(FILES)))
    except Exception as error:  # from huggingface_hub or its HTTP client
        raise InputError(
            f"there is no folder {name}, and the Hugging Face Hub does not give {name}: {_reason(error, hub)}"
        ) from None
    missing = [file for file in (DESCRIPTION, WEIGHTS) if not (folder / file).is_file()]
    fault = f"it has no {missing[0]}" if missing else f"its {DESCRIPTION} describes something else"
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if not missing and {"config", "provenance", "step"} <= json.loads((folder / DESCRIPTION).read_bytes()).keys():
            return folder
    raise InputError(f"{name} on the Hugging Face Hub is not an agent of decision_rnn: {fault}")


def _import_hub(purpose: str) -> ModuleType:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError:
        raise InputError(
            f"{purpose} the package huggingface_hub is needed: `pip install 'decision-rnn[hub]'`"
        ) from None
    return huggingface_hub


def _reason(error: Exception, hub: ModuleType) -> str:
    """Why a request failed, and what to do."""
    errors, status = hub.errors, getattr(getattr(error, "response", None), "status_code", None)
    message = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    if isinstance(error, errors.GatedRepoError):
        return "its owner grants access on request: ask for it on its page, and log in with `hf auth login`"
    if isinstance(error, errors.RepositoryNotFoundError):
        return "there is no such repository, or it is private: check the name, or log in with `hf auth login`"
    if isinstance(error, errors.RevisionNotFoundError):
        return "the repository has no such revision: name a branch, tag or commit of it"
    if isinstance(error, errors.HFValidationError):
        return "that is not the id of a repository: name one as org/name"
    if isinstance(error, errors.LocalTokenNotFoundError) or status in (401, 403):
        return "you are not logged in, or not allowed to: log in with `hf auth login`"
    if status is not None:
        return f"it answers {status} ({message:.200}): try again later"
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
        return f"it cannot be written here ({error.strerror})"
    return f"it cannot be reached, and nothing of it is in the cache ({message:.200}): is there a network?"
