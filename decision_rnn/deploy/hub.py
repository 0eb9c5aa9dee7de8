"""Agents by name."""

from pathlib import Path

from decision_rnn.checkpoint import last_checkpoint


def find_agent(name: str | Path) -> Path:
    """The folder of an agent, as `checkpoint.load_agent` takes it.

    Args:
        name: A run's folder, whose last checkpoint is taken, or a checkpoint's.

    Raises:
        InputError: If there is no agent of that name.
    """
    folder = Path(name)
    return folder if (folder / "weights.safetensors").is_file() else last_checkpoint(folder)
