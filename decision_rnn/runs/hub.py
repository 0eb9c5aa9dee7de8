"""Agents by name: in a folder, shipped with the package, or on the Hugging Face Hub.

Only the files of an agent are downloaded, and no code of a repository is run.
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from decision_rnn.runs.folder import DESCRIPTION, WEIGHTS, last_checkpoint
from decision_rnn.utils.errors import InputError, did_you_mean, importing, one_line

ONNX, CARD, CLIP, RESULTS = "policy.onnx", "README.md", "replay.mp4", "results"
FILES = [DESCRIPTION, WEIGHTS, ONNX, CARD, CLIP, f"{RESULTS}/*.json"]
"""Files of a packaged agent; nothing else is downloaded or uploaded."""
PRETRAINED = "pretrained"
HUB_ID = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?", re.ASCII)
"""`org/name`, optionally followed by `@` and a revision."""
SHIPPED = Path(__file__).parent / PRETRAINED


def find_agent(name: str | Path) -> Path:
    """The folder of an agent by any of the names that `load_agent` takes; InputError if there is none, or it cannot be
    downloaded. A name that begins with `runs/`, or whose parent folder exists, is looked up on the hub only with a
    revision, `org/name@revision`."""
    name, folder = str(name), Path(name)
    if (folder / "config.yaml").is_file():
        return last_checkpoint(folder)
    if (folder / DESCRIPTION).is_file() or (folder / WEIGHTS).is_file():
        return folder
    shipped = {f"{PRETRAINED}/{path.parent.name}": path.parent for path in sorted(SHIPPED.glob(f"*/{DESCRIPTION}"))}
    if str(folder) in shipped:
        return shipped[str(folder)]
    match = HUB_ID.fullmatch(name)
    looks_local = folder.parts[:1] in (("runs",), (PRETRAINED,)) or folder.parent.exists()
    if match and not folder.exists() and (match[2] or not looks_local):
        with _hub(name) as hub:
            return Path(hub.snapshot_download(match[1], revision=match[2], allow_patterns=FILES))
    others = {str(path) for path in folder.parent.glob("*/")} - {str(folder)}
    hint = did_you_mean(str(folder), [*shipped, *sorted(others)])
    place = f"in the folder {name}" if folder.is_dir() else name
    raise InputError(
        f"there is no agent {place}: {hint}Name the folder of a run, a checkpoint or a packaged agent, "
        f"{' or '.join(shipped)}, or org/name[@revision] on the Hugging Face Hub"
    )


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
        InputError: If the upload fails.
    """
    options = {"allow_patterns": FILES, "delete_patterns": FILES, "commit_message": "Upload an agent of decision_rnn"}
    with _hub(repo_id) as hub:
        hub.create_repo(repo_id, private=private, exist_ok=True)
        return str(hub.upload_folder(repo_id=repo_id, folder_path=str(folder), **options))


@contextlib.contextmanager
def _hub(name: str) -> Iterator[Any]:
    """The module huggingface_hub, with InputError, naming the repository, for its errors."""
    subject = f"{name} on the Hugging Face Hub"
    with importing(subject, "hub"):
        import huggingface_hub
    try:
        yield huggingface_hub
    except Exception as error:  # huggingface_hub and its HTTP client have no common base class
        raise InputError(f"cannot use {subject}: {one_line(error)}. Log in with `hf auth login` if needed") from None
