"""`decision-rnn data ACTION`: list, describe, make, verify, import, export, merge, split or remove datasets."""

from argparse import Namespace
from pathlib import Path

from gymnasium.spaces import Discrete, MultiDiscrete

from decision_rnn.cli.parser import CommandParser, parse_as
from decision_rnn.data.dataset import (
    dataset_names,
    export_dataset,
    is_ready,
    merge_datasets,
    open_dataset,
    split_dataset,
)
from decision_rnn.data.entries import plot_dataset
from decision_rnn.data.importing import import_log
from decision_rnn.data.info import format_info, format_size, warn_of_shift
from decision_rnn.data.sources import SOURCES
from decision_rnn.data.sources.local import remove_dataset
from decision_rnn.utils.files import check_destination
from decision_rnn.utils.parsing import Names, PositiveInt, convert

ACTIONS = {
    "list": "list the datasets that can be named, and which are here",
    "info": "print what a dataset holds",
    "make": "download, make or convert a dataset now instead of on first use",
    "verify": "hash every byte of a dataset again",
    "import": "write logs or files of other libraries as a local dataset",
    "export": "write a dataset as a Minari dataset or a file in D4RL's layout",
    "merge": "write the episodes of several datasets as a new local one",
    "split": "write the episodes of a dataset as a local one to train on and a held-out one",
    "remove": "remove a local dataset from disk",
}


def add_arguments(parser: CommandParser) -> None:
    subparsers = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=CommandParser)
    actions = {name: subparsers.add_parser(name, help=text, description=text) for name, text in ACTIONS.items()}
    for name in ("info", "make", "verify", "export", "split", "remove"):
        actions[name].add_argument("dataset", help="the dataset's name, such as standin/hopper-medium or local/mine")
    actions["merge"].add_argument("dataset", help="the name of the new dataset, local/NAME")
    for name in ("info", "make", "verify", "export", "split"):
        actions[name].add_settings(open_dataset, "path", "partial")
    text = "a dataset of held-out episodes: print which of their entries are outside the range of this one"
    actions["info"].add_argument("--validation", metavar="NAME", help=text)
    actions["info"].add_argument("--plot", type=Path, help="also draw returns and episodes into this PNG file")
    actions["export"].add_settings(export_dataset, "format", "output", required=True)
    actions["split"].add_settings(split_dataset, "hold_out", "seed", "overwrite")
    text = "the datasets whose episodes the new one is to hold, in this order"
    actions["merge"].add_argument("datasets", nargs="+", help=text)
    parser = actions["import"]
    text = "CSV, parquet, HDF5 or npz files, folders of LeRobot datasets, or folders of these; one or several"
    parser.add_argument("logs", nargs="+", metavar="LOG", help=text)
    parser.add_settings(import_log, "name", required=True)
    columns = ("observations", "actions", "reward", "episode", "time", "terminated", "truncated")
    parser.add_settings(import_log, *columns, "action_low", "action_high", "every", "missing", "overwrite", "split")
    text = "how many choices each column of an action has, as 4 or 3,2, if it holds their numbers, from 0 on"
    parser.add_argument("--choices", type=parse_as(Names), default=(), help=text)
    parser.add_argument("--environment", help="the Gymnasium id of the environment to evaluate agents in, if any")


def run(command: Namespace) -> None:
    """Run one of the actions."""
    match command.action:
        case "list":
            for name in dataset_names():
                print(f"{name:<45} {'ready' if is_ready(name) else ''}".rstrip())
            print("further: " + ", ".join(source.pattern for source in SOURCES.values()))
        case "info":
            _print_info(command)
        case "make":
            print(format_size(open_dataset(command.dataset, **command.settings)))
        case "verify":
            store = open_dataset(command.dataset, **command.settings).store
            store.verify()
            total = sum(file["bytes"] for file in store.manifest["files"].values())
            print(f"{total:,} bytes in {store.path} are as they were written")
        case "import":
            choices = [convert(number, PositiveInt, "--choices") for number in command.choices]
            space = Discrete(choices[0]) if len(choices) == 1 else MultiDiscrete(choices) if choices else None
            settings = {"environment_id": command.environment, "action_space": space, **command.settings}
            print(format_size(import_log(command.logs, **settings)))
        case "export":
            print(f"{command.dataset} written to {export_dataset(command.dataset, **command.settings)}")
        case "merge":
            print(format_size(merge_datasets(command.dataset, command.datasets)))
        case "split":
            print("\n".join(map(format_size, split_dataset(command.dataset, **command.settings))))
        case "remove":
            remove_dataset(command.dataset)
            print(f"{command.dataset} is removed")


def _print_info(command: Namespace) -> None:
    if command.plot:
        check_destination(command.plot)  # before the dataset is opened, which may take minutes
    dataset = open_dataset(command.dataset, **command.settings)
    print(format_info(dataset))
    if command.validation:
        store, held_out = dataset.store, open_dataset(command.validation).store
        sizes = store.observation_dim, store.action_dim
        held_out.check_entries(command.dataset, sizes, store.labels("observations"), store.action_names)
        shifts = list(warn_of_shift(store, held_out))
        shifts = shifts or ["nothing far outside the range of these data"]
        print("\n".join(f"  {command.validation}: {shift}" for shift in shifts))
    if command.plot:
        plot_dataset(dataset, command.plot)
        print(f"\ndrawn in {command.plot}")
