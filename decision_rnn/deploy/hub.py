"""Agents by name: in a folder, shipped with the package, or on the Hugging Face Hub.

A name is looked up in this order, and the first match is taken:

1. A folder of that name: a run (its last checkpoint), a checkpoint, or a packaged agent. As usual, a folder `org/name`
   takes precedence over a repository with that id on the hub.
2. `pretrained/NAME`: an agent shipped with the package.
3. `org/name` or `org/name@revision`: a repository on the hub, at a branch, tag or commit. `org/name@main` names the
   repository even if there is a folder `org/name`.

A repository is treated as data: none of its code is run, and only the files of an agent are downloaded.
"""

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
PRETRAINED = "pretrained"
HUB_ID = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?", re.ASCII)
"""`org/name`, optionally followed by `@` and a revision."""
INSTALL = "`pip install 'decision-rnn[hub]'`"


def find_agent(name: str | Path) -> Path:
    """Find the folder of an agent, for `checkpoint.load_agent`.

    Args:
        name: The folder of a run (its last checkpoint is used), of a checkpoint or of a packaged agent; a name such as
            `pretrained/hopper-medium`; or an id on the Hugging Face Hub, `org/name` or `org/name@revision`, which is
            downloaded into the hub's cache.

    Raises:
        InputError: If there is no agent of that name, or it cannot be downloaded: the extra `hub` is not installed,
            there is no network or no permission, or the repository holds no agent of decision_rnn.
    """
    name = str(name)
    folder = Path(name)
    if folder.is_dir():
        return _in_folder(folder)
    root, _, rest = name.partition("/")
    if root == PRETRAINED:
        return _pretrained(rest)
    if folder.exists():
        raise InputError(f"{name} is a file: name the folder of a run, of a checkpoint or of a packaged agent")
    if match := HUB_ID.fullmatch(name):
        return _fetched(match[1], match[2])
    raise InputError(
        f"{name} is not a run folder, nor another agent's: name a folder that is there, {PRETRAINED}/NAME of "
        f"{', '.join(pretrained_agents())}, or a repository on the Hugging Face Hub, org/name"
    )


def pretrained_agents() -> list[str]:
    """The names of the agents shipped with the package, without `pretrained/`."""
    root = _pretrained_root()
    return sorted(path.parent.name for path in root.glob(f"*/{DESCRIPTION}"))


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
            f"{folder} is no packaged agent (it has no {CARD} beside {DESCRIPTION} and {WEIGHTS}): make one with "
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
        raise _explain(error, repo_id, "the Hugging Face Hub takes no", hub) from None
    return str(done)


def check_repo_id(repo_id: str) -> None:
    """Raise InputError if this is not the id of a repository on the hub."""
    match = HUB_ID.fullmatch(repo_id)
    if not match or match[2]:
        raise InputError(f"{repo_id!r:.100} is no repository on the Hugging Face Hub: name one as org/name")


def is_packaged(folder: Path) -> bool:
    """Whether a folder holds a packaged agent: an agent with its model card."""
    return all((folder / file).is_file() for file in (DESCRIPTION, WEIGHTS, CARD))


def _in_folder(folder: Path) -> Path:
    if (folder / "config.yaml").is_file():
        return last_checkpoint(folder)
    if (folder / DESCRIPTION).is_file() or (folder / WEIGHTS).is_file():
        return folder  # load_agent reports missing files
    hint = f"; for the repository of that id on the Hugging Face Hub say {folder}@main" if _is_id(folder) else ""
    raise InputError(
        f"{folder} is not a run folder (it has no config.yaml) and holds no agent ({DESCRIPTION} and {WEIGHTS}): name "
        f"a folder that `decision-rnn train` or `decision-rnn package` made{hint}"
    )


def _is_id(folder: Path) -> bool:
    return HUB_ID.fullmatch(str(folder)) is not None


def _pretrained_root() -> Path:
    return Path(str(importlib.resources.files("decision_rnn"))) / PRETRAINED


def _pretrained(name: str) -> Path:
    known = pretrained_agents()
    if name.rstrip("/") in known:
        return _pretrained_root() / name.rstrip("/")
    raise InputError(
        f"there is no folder {PRETRAINED}/{name} here, and no such agent is shipped: "
        f"{did_you_mean(name, known)}shipped are {', '.join(f'{PRETRAINED}/{one}' for one in known)}"
    )


def _fetched(repo_id: str, revision: str | None) -> Path:
    name = repo_id if revision is None else f"{repo_id}@{revision}"
    hub = _import_hub(f"there is no folder {name}, and to fetch it from the Hugging Face Hub")
    try:
        folder = Path(hub.snapshot_download(repo_id, revision=revision, allow_patterns=list(FILES)))
    except Exception as error:
        raise _explain(
            error, name, f"there is no folder {name}, and on the Hugging Face Hub cannot fetch", hub
        ) from None
    missing = [file for file in (DESCRIPTION, WEIGHTS) if not (folder / file).is_file()]
    if missing:
        raise InputError(f"{name} on the Hugging Face Hub is no agent of decision_rnn: it has no {missing[0]}")
    try:
        ours = {"config", "provenance", "step"} <= json.loads((folder / DESCRIPTION).read_bytes()).keys()
    except (ValueError, AttributeError):
        ours = False
    if not ours:
        raise InputError(
            f"{name} on the Hugging Face Hub is no agent of decision_rnn: its {DESCRIPTION} describes something else"
        )
    return folder


def _import_hub(purpose: str) -> ModuleType:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError:
        raise InputError(f"{purpose} the package huggingface_hub is needed: {INSTALL}") from None
    return huggingface_hub


def _explain(error: Exception, name: str, doing: str, hub: ModuleType) -> InputError:
    """Turn an exception from the hub's library into a readable error."""
    errors = hub.errors
    status = getattr(getattr(error, "response", None), "status_code", None)
    said = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    if isinstance(error, errors.GatedRepoError):
        why = "its owner grants access on request: ask for it on its page, and log in with `hf auth login`"
    elif isinstance(error, errors.RepositoryNotFoundError):
        why = "there is no such repository, or it is private: check the name, or log in with `hf auth login`"
    elif isinstance(error, errors.RevisionNotFoundError):
        why = "the repository has no such revision: name a branch, tag or commit of it"
    elif isinstance(error, errors.HFValidationError):
        why = "that is no id of a repository: name one as org/name"
    elif isinstance(error, errors.LocalTokenNotFoundError) or status in (401, 403):
        why = "you are not logged in, or not allowed to: log in with `hf auth login` with a token that may"
    elif status is not None:
        why = f"it answers {status} ({said:.200}): try again later"
    elif isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
        why = f"it cannot be written here ({error.strerror})"
    else:
        why = f"it cannot be reached, and nothing of it is in the cache ({said:.200}): is there a network?"
    return InputError(f"{doing} {name}: {why}")
