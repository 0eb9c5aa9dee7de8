"""Export of a dataset in another library's format."""

from pathlib import Path
from typing import Literal

from decision_rnn.data.dataset import Partial, open_dataset
from decision_rnn.data.sources import d4rl, minari, ogbench
from decision_rnn.utils.errors import InputError, cannot_write
from decision_rnn.utils.files import check_folder

Format = Literal["minari", "d4rl", "ogbench"]


def export_dataset(
    name: str, format: Format, output: str, path: Path | str | None = None, partial: Partial = "keep"
) -> Path:
    """Write a dataset as a new Minari dataset, or as a new file in D4RL's or OGBench's layout.

    Args:
        name: The dataset's name, as for `open_dataset`; so are `path` and `partial`.
        format: The format: `minari`, `d4rl`, or, for data of OGBench's tasks, `ogbench`.
        output: A new Minari id, or a new HDF5 or npz file.

    Returns:
        The new file, or the folder of the Minari dataset.

    Raises:
        InputError: If the output exists or cannot be written, before the dataset is opened, which may take minutes; or
            if the format cannot hold the dataset.
        EnvironmentFailure: If the disk is full.
    """
    try:
        if format == "minari":
            minari.check_id(output)
        target = minari.dataset_folder(output) if format == "minari" else Path(output)
        if target.exists():
            raise InputError(f"{target} exists: remove it, or name another --output")
        check_folder(target.parent)
        dataset = open_dataset(name, path, partial)
        if format == "minari":
            minari.write_minari(output, dataset.store, dataset.spec)
        else:
            (d4rl.write_d4rl if format == "d4rl" else ogbench.write_ogbench)(target, dataset.store)
    except OSError as error:
        raise cannot_write(output, error) from None
    return target
