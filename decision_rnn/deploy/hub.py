"""Agents by name: in a folder, shipped with the package, or on the Hugging Face Hub.

A repository is data: none of its code is run, and only the files of an agent are downloaded.
"""

import importlib.resources
import re
from pathlib import Path
from typing import Any

from decision_rnn.training.run_files import DESCRIPTION, WEIGHTS, last_checkpoint
from decision_rnn.utils.errors import InputError, did_you_mean, one_line

ONNX, CARD, CLIP, RESULTS = "policy.onnx", "README.md", "replay.mp4", "results"
FILES = (DESCRIPTION, WEIGHTS, ONNX, CARD, CLIP, f"{RESULTS}/*.json")
"""Files of a packaged agent; nothing else is downloaded or uploaded."""
RUNS, PRETRAINED = "runs", "pretrained"
HUB_ID = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?", re.ASCII)
"""`org/name`, optionally followed by `@` and a revision."""


def find_agent(name: str | Path) -> Path:
    """Find the folder of an agent.

    Args:
        name: The folder of a run (its last checkpoint is used), of a checkpoint or of a packaged agent;
            `pretrained/NAME`, which ships with the package; or `org/name[@revision]` on the Hugging Face Hub. A name
            that begins with `runs/`, or whose parent folder exists, is looked up on the hub only with a revision.

    Raises:
        InputError: If there is no such agent, or it cannot be downloaded.
    """
    name = str(name)
    folder = Path(name)
    if (folder / "config.yaml").is_file():
        return last_checkpoint(folder)
    if (folder / DESCRIPTION).is_file() or (folder / WEIGHTS).is_file():
        return folder
    shipped = [f"{PRETRAINED}/{agent}" for agent in pretrained_agents()]
    if name.rstrip("/") in shipped:
        return _package_root() / folder
    match = HUB_ID.fullmatch(name)
    looks_local = folder.parts[:1] in ((RUNS,), (PRETRAINED,)) or folder.parent.exists()
    if match and not folder.exists() and (match[2] or not looks_local):
        return _download(*match.groups())
    siblings = [str(path) for path in folder.parent.glob("*/")] if folder.parent.is_dir() else []
    hint = did_you_mean(str(folder), [*shipped, *siblings])
    raise InputError(
        f"there is no agent {name}: {hint}Name the folder of a run, a checkpoint or a packaged agent, "
        f"{' or '.join(shipped)}, or org/name[@revision] on the Hugging Face Hub"
    )


def pretrained_agents() -> list[str]:
    """Names of the agents that ship with the package, without `pretrained/`."""
    return sorted(path.parent.name for path in (_package_root() / PRETRAINED).glob(f"*/{DESCRIPTION}"))


def push_to_hub(folder: str | Path, repo_id: str, private: bool = False) -> str:
    """Upload a packaged agent to the Hugging Face Hub, creating the repository if it does not exist.

    Files of an earlier agent in the repository are replaced or deleted; other files are kept.

    Args:
        folder: Folder of a packaged agent, as written by `decision-rnn package`.
        repo_id: `org/name`.
        private: Whether a newly created repository is private.

    Returns:
        The URL of the commit.

    Raises:
        InputError: If the folder holds no packaged agent or the upload fails.
    """
    check_repo_id(repo_id)
    if not is_packaged(Path(folder)):
        raise InputError(f"{folder} is not a packaged agent. Make one with `decision-rnn package RUN`")
    hub = _import_hub()
    try:
        hub.create_repo(repo_id, private=private, exist_ok=True)
        commit = hub.upload_folder(
            repo_id=repo_id,
            folder_path=str(folder),
            allow_patterns=list(FILES),
            delete_patterns=list(FILES),
            commit_message="Upload an agent of decision_rnn",
        )
    except Exception as error:  # huggingface_hub and its HTTP client have no common base class
        raise InputError(f"cannot push to {repo_id}: {one_line(error)}. Log in with `hf auth login`") from None
    return str(commit)


def check_repo_id(repo_id: str) -> None:
    """Raise InputError unless this is `org/name`."""
    match = HUB_ID.fullmatch(repo_id)
    if not match or match[2]:
        raise InputError(f"{repo_id!r:.100} is not a repository on the Hugging Face Hub: expected org/name")


def is_packaged(folder: Path) -> bool:
    """Whether a folder holds a packaged agent: an agent with its model card."""
    return all((folder / file).is_file() for file in (DESCRIPTION, WEIGHTS, CARD))


def _package_root() -> Path:
    return Path(str(importlib.resources.files("decision_rnn")))


def _download(repo_id: str, revision: str | None) -> Path:
    name = repo_id if revision is None else f"{repo_id}@{revision}"
    try:
        folder = Path(_import_hub().snapshot_download(repo_id, revision=revision, allow_patterns=list(FILES)))
    except InputError as error:
        raise InputError(f"there is no folder {name}, and {error}") from None
    except Exception as error:  # as above
        raise InputError(
            f"there is no folder {name}, and the Hugging Face Hub refuses it: {one_line(error)}. If it is private, log "
            "in with `hf auth login`"
        ) from None
    for file in (DESCRIPTION, WEIGHTS):
        if not (folder / file).is_file():
            raise InputError(f"{name} on the Hugging Face Hub is not an agent of decision_rnn: it has no {file}")
    return folder


def _import_hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise InputError('the Hugging Face Hub needs huggingface_hub: pip install -e ".[hub]"') from None
    return huggingface_hub
