"""Whether there is a dataset of some name."""

from decision_rnn.data.standin.recipes import check_standin


def check_name(name: str) -> None:
    """Raise InputError if there is no dataset of that name."""
    if "/" not in name or name.startswith("standin/"):
        check_standin(f"standin/{name.removeprefix('standin/')}")
        return
    from decision_rnn.data.catalog import open_dataset  # here: it imports Gymnasium and Minari

    _ = open_dataset(name).spec
