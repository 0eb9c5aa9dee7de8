"""`decision-rnn data ACTION`: list, inspect, make, check, import, export, merge or remove datasets."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from gymnasium.spaces import Discrete, MultiDiscrete

from decision_rnn.cli.parser import CommandParser, announce_standin, parse_as
from decision_rnn.data.cache import check_room
from decision_rnn.data.dataset import Dataset, dataset_names, import_log, is_ready, merge_datasets, open_dataset
from decision_rnn.data.formats import d4rl, minari, ogbench
from decision_rnn.data.info import format_info, plot_returns
from decision_rnn.data.sources import SOURCES
from decision_rnn.data.sources.local import remove_dataset
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.errors import InputError, cannot_write
from decision_rnn.utils.files import check_destination, check_folder
from decision_rnn.utils.messages import counted
from decision_rnn.utils.parsing import Names, PositiveInt, convert


def run(arguments: Sequence[str]) -> None:
    """Run one of the actions; raises InputError for invalid input."""
    command = parser().read(arguments or ["--help"])
    ACTIONS[command.action][0](command)


def parser() -> CommandParser:
    parser = CommandParser("decision-rnn data", "List, make, inspect, import, export or remove datasets.")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=CommandParser)
    parsers = {
        name: actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        for name, (_, text) in ACTIONS.items()
    }
    _add_import(parsers["import"])
    for name in ("info", "make", "verify", "export"):
        parsers[name].add_argument("dataset", help="the dataset's name, such as standin/hopper-medium")
        parsers[name].add_argument("--path", type=Path, help="the file of a dataset of D4RL or OGBench")
        text = "keep or drop episodes that break off, neither terminated nor truncated"
        parsers[name].add_argument("--partial", choices=("keep", "drop"), default="keep", help=text)
    parsers["info"].add_argument("--plot", type=Path, help="also draw the returns into this PNG file")
    text = "minari, d4rl, or, for data of OGBench's tasks, ogbench"
    parsers["export"].add_argument("--format", choices=("minari", "d4rl", "ogbench"), required=True, help=text)
    parsers["export"].add_argument("--output", required=True, help="a new Minari id, or a new HDF5 or npz file")
    parsers["merge"].add_argument("dataset", help="the new dataset's name, such as local/both")
    parsers["merge"].add_argument(
        "datasets", nargs="+", help="the datasets whose episodes it is to hold, in this order"
    )
    parsers["remove"].add_argument("dataset", help="the dataset's name, such as local/mine")
    return parser


def _add_import(parser: CommandParser) -> None:
    parser.add_argument("logs", nargs="+", metavar="LOG", help="CSV or parquet files, or HDF5 files in D4RL's layout")
    parser.add_argument("--name", required=True, help="the name of the new dataset, local/NAME")
    columns = parser.add_argument_group("the columns of CSV and parquet files, which have a row for every step")
    for option, text in COLUMNS.items():
        lists = option in ("observations", "actions")
        columns.add_argument(
            f"--{option}", type=parse_as(Names) if lists else str, default=() if lists else None, help=text
        )
    text = "how many choices each column of an action has, as 4 or 3,2, if it holds their numbers, from 0 on"
    columns.add_argument("--choices", type=parse_as(Names), default=(), help=text)
    parser.add_argument("--environment", help="the Gymnasium id of the environment to evaluate agents in, if any")
    text = "what to do with an episode in which a number is missing: stop, leave it out, or end it before that row"
    missing = ("error", "drop_episode", "end_episode")
    parser.add_argument("--missing", choices=missing, default="error", help=text)
    parser.add_argument("--append", action="store_true", help="if the dataset exists, add the episodes to it")


def _list(command: Namespace) -> None:
    for name in dataset_names():
        try:
            state = "ready" if is_ready(name) else ""
        except OSError as error:
            state = f"cannot be read: {error.strerror}"
        print(f"{name:<45} {state}".rstrip())
    print("further: " + ", ".join(source.pattern for source in SOURCES.values()))


def _info(command: Namespace) -> None:
    if command.plot:
        check_destination(command.plot)  # before the dataset is opened, which may take minutes
    dataset = _open(command)
    print(format_info(dataset))
    if command.plot:
        store = dataset.store
        plot_returns(dataset.name, store.episode_returns, store.episode_lengths, command.plot)
        print(f"\ndrawn in {command.plot}")


def _make(command: Namespace) -> None:
    store = _open(command).store
    print(f"{_size(store)} in {store.path}")


def _verify(command: Namespace) -> None:
    store = _open(command).store
    store.verify()
    total = sum(file["bytes"] for file in store.manifest["files"].values())
    print(f"{total:,} bytes in {store.path} are as they were written")


def _export(command: Namespace) -> None:
    to_minari = command.format == "minari"
    try:
        if to_minari:
            minari.check_id(command.output)
        path = minari.dataset_folder(command.output) if to_minari else Path(command.output)
        if path.exists():
            raise InputError(f"{path} exists: remove it, or name another --output")
        check_folder(path.parent)
        dataset = open_dataset(command.dataset, command.path, command.partial)
        store = dataset.store
        check_room(path, 3 * store.steps * store.file.strides[0])
        if command.format == "d4rl":
            d4rl.write_d4rl(path, store)
        elif command.format == "ogbench":
            ogbench.write_ogbench(path, store)
        else:
            minari.write_minari(command.output, store, dataset.spec)
    except OSError as error:
        raise cannot_write(command.output, error) from None
    print(f"{_size(store)} written to {path}")
    if command.format == "ogbench":
        print(ogbench.LEFT_OUT)


def _import(command: Namespace) -> None:
    choices = [convert(number, PositiveInt, "--choices") for number in command.choices]
    space = Discrete(choices[0]) if len(choices) == 1 else MultiDiscrete(choices) if choices else None
    store = import_log(
        command.logs,
        command.name,
        **{column: getattr(command, column) for column in COLUMNS},
        environment_id=command.environment,
        action_space=space,
        missing=command.missing,
        append=command.append,
    ).store
    returns = store.episode_returns
    print(f"{command.name}: {_size(store)}, returns {returns.min():.4g} to {returns.max():.4g}, in {store.path}")


def _merge(command: Namespace) -> None:
    store = merge_datasets(command.dataset, command.datasets).store
    print(f"{_size(store)} in {store.path}")


def _remove(command: Namespace) -> None:
    remove_dataset(command.dataset)
    print(f"{command.dataset} is removed")


def _open(command: Namespace) -> Dataset:
    announce_standin(command.dataset)
    return open_dataset(command.dataset, command.path, command.partial)


def _size(store: EpisodeStore) -> str:
    return f"{counted(len(store), 'episode')}, {counted(store.steps, 'step')}"


COLUMNS = {
    "observations": "the columns of an observation, as a,b,c; names may be patterns such as obs_*",
    "actions": "the columns of an action",
    "reward": "the column of the rewards (default: all are 0)",
    "episode": "the column that tells episodes apart (default: a log is one episode, or ends them by the flags)",
    "time": "the column that orders the rows of an episode (default: they are in order)",
    "terminated": "the column that is 1 or true in the last row of an episode whose task ended",
    "truncated": "the column that is 1 or true where the time ended (default: all episodes that did not terminate)",
}
ACTIONS: dict[str, tuple[Callable[[Namespace], None], str]] = {
    "list": (_list, "list the datasets that can be named, and which are here"),
    "info": (_info, "print what a dataset holds"),
    "make": (_make, "download, make or convert a dataset now instead of on first use"),
    "verify": (_verify, "hash every byte of a dataset again"),
    "import": (_import, "write logs, CSV or parquet, or HDF5 files in D4RL's layout, as a local dataset"),
    "export": (_export, "write a dataset as a Minari dataset or a file in D4RL's or OGBench's layout"),
    "merge": (_merge, "write the episodes of several datasets as a new local one"),
    "remove": (_remove, "remove a local dataset from disk"),
}
