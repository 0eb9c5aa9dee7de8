"""The commands about datasets: `decision-rnn data list | info | make | verify | download | import | export | merge |
remove`."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from gymnasium.spaces import Discrete, MultiDiscrete

from decision_rnn.cli.parser import CommandParser
from decision_rnn.data.cache import bytes_per_step, check_room
from decision_rnn.data.catalog import PARTIAL_HELP, names, open_dataset
from decision_rnn.data.datasets import import_log, merge_datasets
from decision_rnn.data.formats import d4rl, minari, ogbench
from decision_rnn.data.info import format_info
from decision_rnn.data.missing import Missing
from decision_rnn.data.sources import SOURCES
from decision_rnn.data.sources.local import remove_dataset
from decision_rnn.data.spaces import spaces_of
from decision_rnn.data.verification import CacheError
from decision_rnn.utils.errors import InputError, cannot_write, did_you_mean
from decision_rnn.utils.files import check_destination, check_folder
from decision_rnn.utils.messages import counted
from decision_rnn.utils.parsing import PositiveInt, convert

USAGE = """usage: decision-rnn data ACTION ...

  list              the datasets that can be named, and which are here
  info DATASET      what a dataset holds, as text and, with --plot FILE, as a picture
  make DATASET      make, or convert, a dataset now instead of on first use
  verify DATASET    hash every byte of a dataset again, as opening does only for files that were touched
  download DATASET  fetch the source of a dataset
  import LOG        write a log, CSV or parquet, or an HDF5 file in D4RL's layout, as the dataset --name local/NAME
  export DATASET    write a dataset for others: --format minari --output ID, or --format d4rl or
                    ogbench --output FILE
  merge NEW PARTS   write the episodes of several datasets as a new one, local/NAME
  remove DATASET    remove a local dataset from disk

`decision-rnn data ACTION --help` shows an action's options."""


def run(arguments: Sequence[str]) -> None:
    """Run one of the actions; raises InputError for invalid input."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return
    action, *rest = arguments
    if action not in ACTIONS:
        hint = did_you_mean(action, ACTIONS)
        raise InputError(f"unknown command `data {action}`: {hint}known are {', '.join(ACTIONS)}")
    ACTIONS[action](_parser(action).read(rest))


def parsers() -> dict[str, CommandParser]:
    """The parsers of the command, one per action."""
    return {name: _parser(name) for name in ACTIONS}


def _parser(action: str) -> CommandParser:
    parser = CommandParser(f"decision-rnn data {action}")
    if action == "import":
        _add_import(parser)
    elif action != "list":
        parser.add_argument("dataset", help=DATASET_HELP.get(action, "the dataset's name, such as hopper-medium"))
    if action == "merge":
        parser.add_argument("parts", nargs="+", help="the datasets whose episodes it is to hold, in this order")
    if action in ("info", "make", "verify", "export"):
        parser.add_argument("--path", type=Path | None, help="the file of a dataset of D4RL or OGBench")
        parser.add_argument("--partial", type=Literal["keep", "drop"], default="keep", help=PARTIAL_HELP)
    if action == "info":
        parser.add_argument("--plot", type=Path | None, help="also draw the returns into this PNG file")
    if action == "export":
        parser.add_argument("--format", type=Literal["minari", "d4rl", "ogbench"], required=True, help=FORMAT_HELP)
        parser.add_argument("--output", required=True, help="a new Minari id, or a new HDF5 or npz file")
    return parser


def _add_import(parser: CommandParser) -> None:
    parser.add_argument("logs", nargs="+", metavar="LOG", help="CSV or parquet files, or HDF5 files in D4RL's layout")
    parser.add_argument("--name", required=True, help="the name of the new dataset, local/NAME")
    columns = parser.add_argument_group("the columns of CSV and parquet files, which have a row for every step")
    for option, text in COLUMNS.items():
        hint: Any = tuple[str, ...] if option in ("observations", "actions") else str | None
        parser.add_typed(columns, f"--{option}", hint=hint, default=() if hint == tuple[str, ...] else None, help=text)
    parser.add_typed(columns, "--choices", hint=tuple[str, ...], default=(), help=CHOICES_HELP)
    parser.add_argument("--environment", help="the Gymnasium id of the environment to evaluate agents in, if any")
    parser.add_argument("--missing", type=Missing, default="error", help=MISSING_HELP)
    parser.add_argument("--append", action="store_true", help="if the dataset exists, add the episodes to it")


def _list(command: Namespace) -> None:
    for name in names():
        try:
            state = "ready" if open_dataset(name).ready else ""
        except OSError as error:
            state = f"cannot be read: {error.strerror}"
        print(f"{name:<45} {state}".rstrip())
    print("further: " + ", ".join(source.pattern for source in SOURCES.values()))


def _info(command: Namespace) -> None:
    if command.plot:  # checked before the dataset is opened, which may convert or collect it for minutes
        if command.plot.suffix != ".png":
            raise InputError(f"--plot {command.plot} is no PNG file: give it a name that ends in .png")
        check_destination(command.plot)
    dataset = open_dataset(command.dataset, command.path, command.partial)
    store = dataset.open()
    print(format_info(dataset.spec, store))
    if command.plot:
        from decision_rnn.utils.plots import plot_returns  # here: matplotlib takes a second to import

        plot_returns(dataset.spec.name, store.episode_returns, store.episode_lengths, command.plot)
        print(f"\ndrawn in {command.plot}")


def _make(command: Namespace) -> None:
    store = open_dataset(command.dataset, command.path, command.partial).open()
    print(f"{counted(store.episodes, 'episode')}, {counted(store.steps, 'step')} in {store.path}")


def _verify(command: Namespace) -> None:
    store = open_dataset(command.dataset, command.path, command.partial).open()
    try:
        store.verify()
    except CacheError as error:
        raise InputError(
            f"{error.fault}: it will not be used; the next use makes it again, or, where it is own data, "
            "`data remove` it and write it again"
        ) from None
    total = sum(file["bytes"] for file in store.manifest["files"].values())
    print(f"{total:,} bytes in {store.path} are as they were written")


def _download(command: Namespace) -> None:
    for path in open_dataset(command.dataset).download():
        print(path)


def _export(command: Namespace) -> None:
    dataset, to_minari = open_dataset(command.dataset, command.path, command.partial), command.format == "minari"
    try:
        if to_minari:
            minari.check_id(command.output)
        path = minari.dataset_folder(command.output) if to_minari else Path(command.output)
        if path.exists():
            raise InputError(f"{path} exists: remove it, or name another --output")
        check_folder(path.parent)
        store, spec = dataset.open(), dataset.spec
        check_room(path, 2 * store.steps * bytes_per_step(store.observation_dim, store.action_dim))
        if command.format == "d4rl":
            d4rl.write_file(path, store)
        elif command.format == "ogbench":
            ogbench.write_file(path, store)
        else:
            minari.write_dataset(
                command.output,
                store.read_episodes(),
                environment_id=store.environment_id,
                spaces=spaces_of(store),
                settings=spec.environment_settings,
                metadata={
                    **({"requirements": list(spec.requirements)} if spec.requirements else {}),
                    "description": f"{spec.name}, exported by decision_rnn: {spec.comparable}",
                    "ref_min_score": spec.reference_min,
                    "ref_max_score": spec.reference_max,
                },
                source={"dataset": spec.name, "fingerprint": store.fingerprint},
            )
    except OSError as error:
        raise cannot_write(command.output, error) from None
    print(f"{counted(store.episodes, 'episode')}, {counted(store.steps, 'step')} written to {path}")
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
    ).open()
    size, returns = f"{counted(store.episodes, 'episode')}, {counted(store.steps, 'step')}", store.episode_returns
    print(f"{command.name}: {size}, returns {returns.min():.4g} to {returns.max():.4g}, in {store.path}")


def _merge(command: Namespace) -> None:
    store = merge_datasets(command.dataset, command.parts).open()
    print(f"{counted(store.episodes, 'episode')}, {counted(store.steps, 'step')} in {store.path}")


def _remove(command: Namespace) -> None:
    remove_dataset(command.dataset)
    print(f"{command.dataset} is removed")


FORMAT_HELP = "minari, d4rl, or, for data of OGBench's tasks, ogbench"
DATASET_HELP = {
    "merge": "the new dataset's name, such as local/both",
    "remove": "the dataset's name, such as local/mine",
}
COLUMNS = {
    "observations": "the columns of an observation, as a,b,c; names may be patterns such as obs_*",
    "actions": "the columns of an action",
    "reward": "the column of the rewards (default: all are 0)",
    "episode": "the column that tells episodes apart (default: a log is one episode, or ends them by the flags)",
    "time": "the column that orders the rows of an episode (default: they are in order)",
    "terminated": "the column that is 1 or true in the last row of an episode whose task ended",
    "truncated": "the column that is 1 or true where the time ended (default: all episodes that did not terminate)",
}
CHOICES_HELP = (
    "how many choices each column of an action has, as 4 or 3,2, if it holds their numbers, from 0 on (default: what "
    "the environment says, else quantities)"
)
MISSING_HELP = (
    "what is done with an episode in which a number is missing or not finite: say so and stop, leave it out, or end it "
    "before that row, neither terminated nor truncated"
)
ACTIONS: dict[str, Callable[[Namespace], None]] = {
    "list": _list,
    "info": _info,
    "make": _make,
    "verify": _verify,
    "download": _download,
    "import": _import,
    "export": _export,
    "merge": _merge,
    "remove": _remove,
}
