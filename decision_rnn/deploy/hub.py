"""Agents by name: in a folder, shipped with the package, or on the Hugging Face Hub.

A repository is treated as data: none of its code is run, and only the files of an agent are downloaded.
"""

import importlib.resources
import re
from pathlib import Path
from typing import Any

from decision_rnn.training.run_files import DESCRIPTION, WEIGHTS, last_checkpoint
from decision_rnn.utils.errors import InputError, did_you_mean, one_line

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
    if (folder / "config.yaml").is_file():
        return last_checkpoint(folder)
    if (folder / DESCRIPTION).is_file() or (folder / WEIGHTS).is_file():
        return folder  # load_agent reports missing files
    shipped = [f"{PRETRAINED}/{agent}" for agent in pretrained_agents()]
    if name.rstrip("/") in shipped:
        return _package_root() / folder
    match, there = HUB_ID.fullmatch(name), folder.exists()
    if match and not there and (match[2] or not (folder.parts[0] in (RUNS, PRETRAINED) or folder.parent.exists())):
        return _fetched(*match.groups())
    parents = (parent for parent in (folder.parent, Path(RUNS)) if parent.is_dir())
    near = [*shipped, *(str(other) for parent in parents for other in parent.iterdir() if other.is_dir())]
    on_hub = f"{folder}@main" if HUB_ID.fullmatch(str(folder)) else "org/name"
    fault = f"{name} is not the folder of an agent: " if there else f"there is no run {name}: "
    raise InputError(
        fault + did_you_mean(str(folder), near) * (not there) + "name the folder of a run, of a checkpoint or of a "
        f"packaged agent, {' or '.join(shipped)}, or a repository on the Hugging Face Hub, {on_hub}"
    )


def pretrained_agents() -> list[str]:
    """The names of the agents shipped with the package, without `pretrained/`."""
    return sorted(path.parent.name for path in (_package_root() / PRETRAINED).glob(f"*/{DESCRIPTION}"))


def push_to_hub(folder: str | Path, repo_id: str, private: bool = False) -> str:
    """Upload a packaged agent to the Hugging Face Hub, creating the repository if it does not exist.

    An agent already in the repository is replaced, including those of its files that the new one lacks; files that
    belong to no agent are kept.

    Args:
        folder: Folder of a packaged agent, as written with `decision-rnn package`.
        repo_id: `org/name`.
        private: Whether a newly created repository is visible to its owners only.

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
            commit_message="Upload an agent of decision_rnn",
        )
    except Exception as error:  # from huggingface_hub or its HTTP client
        raise InputError(f"the Hugging Face Hub does not take {repo_id} {_why(error)}") from None
    return str(done)


def check_repo_id(repo_id: str) -> None:
    """Raise InputError if this is not the id of a repository on the hub."""
    match = HUB_ID.fullmatch(repo_id)
    if not match or match[2]:
        raise InputError(f"{repo_id!r:.100} is not a repository on the Hugging Face Hub: name one as org/name")


def is_packaged(folder: Path) -> bool:
    """Whether a folder holds a packaged agent: an agent with its model card."""
    return all((folder / file).is_file() for file in (DESCRIPTION, WEIGHTS, CARD))


def _package_root() -> Path:
    return Path(str(importlib.resources.files("decision_rnn")))


def _fetched(repo_id: str, revision: str | None) -> Path:
    name = repo_id if revision is None else f"{repo_id}@{revision}"
    hub = _import_hub(f"there is no folder {name}, and to fetch it from the Hugging Face Hub")
    try:
        folder = Path(hub.snapshot_download(repo_id, revision=revision, allow_patterns=list(FILES)))
    except Exception as error:  # from huggingface_hub or its HTTP client
        raise InputError(
            f"there is no folder {name}, and the Hugging Face Hub does not give {name} {_why(error)}"
        ) from None
    for file in (DESCRIPTION, WEIGHTS):
        if not (folder / file).is_file():
            raise InputError(f"{name} on the Hugging Face Hub is not an agent of decision_rnn: it has no {file}")
    return folder


def _import_hub(purpose: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise InputError(
            f"{purpose} the package huggingface_hub is needed: `pip install 'decision-rnn[hub]'`"
        ) from None
    return huggingface_hub


def _why(error: Exception) -> str:
    """Why a request failed, in the words of huggingface_hub, and what to do."""
    return (
        f"({one_line(error)}): check the name, the revision and the network, and if it is private, or to push to it, "
        "log in with `hf auth login`"
    )
