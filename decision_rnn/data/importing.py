"""Logs and files of other libraries as local datasets."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from decision_rnn.data.dataset import Dataset, open_dataset
from decision_rnn.data.formats import by_name, expand_folder, open_log
from decision_rnn.data.info import warn_of_bounds, warn_of_choices, warn_of_copies
from decision_rnn.data.logs import Log, LogOptions, label_log, listed
from decision_rnn.data.sources.local import check_new, write_store
from decision_rnn.environments.episode import Episode, Missing
from decision_rnn.environments.layouts import Layout
from decision_rnn.environments.registry import known_spaces
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import pluralize, progress_bar, quiet, tell, warn
from decision_rnn.utils.parsing import Names, Numbers, PositiveInt, convert, to_plain


def import_log(
    log: Any,
    name: str,
    observations: str | Sequence[str] = (),
    actions: str | Sequence[str] = (),
    reward: str | None = None,
    episode: str | Sequence[str] | None = None,
    *,
    time: str | None = None,
    terminated: str | None = None,
    truncated: str | None = None,
    environment_id: str | None = None,
    action_space: gymnasium.Space[Any] | None = None,
    action_low: Numbers | None = None,
    action_high: Numbers | None = None,
    every: PositiveInt = 1,
    missing: Missing = "error",
    overwrite: bool = False,
    split: str | None = None,
    progress: bool = True,
) -> Dataset:
    """Write a log, such as a robot's or another library's file, as a dataset that `train` reads.

    A log has a row for every step: the observation, the action that was chosen at it, and the reward of that action. No
    row is lost: where no observation follows an episode's last action, as in most logs, the last observation is
    repeated, which agents are not trained on. A last row with neither action nor reward is the observation after the
    last action.

    Args:
        log: The path of a CSV or parquet file, a pandas DataFrame, a dictionary of columns, or a list of rows as
            dictionaries of numbers, which are read with pandas (the extra `logs`), as is the folder of a LeRobot
            dataset; the path of an HDF5 or npz file in the layout of D4RL, robomimic, d3rlpy, Minari, ManiSkill or
            diffusion policy; a dictionary of arrays; or a folder or a list of these, whose episodes follow each other.
            Columns and arrays of usual names need not be named.
        name: The name of the new dataset: `local/` and a word.
        observations: The columns or arrays of an observation, as `x,y` or a list; a name may be a pattern such as
            `obs_*`, and a parquet column may have a list of numbers in each row. Several arrays are the parts of a
            `Dict` space.
        actions: The columns or arrays of an action.
        reward: The column of the rewards; if left out, they are 0, and agents clone the data.
        episode: The column that identifies episodes, numbers or text, or several, as `robot,run`; its rows need not be
            side by side. If left out, a log is one episode, or multiple if flags end them.
        time: The column, of numbers or times, that orders the rows of an episode; if left out, they are in order.
        terminated: The column, of true and false or 1 and 0, that is true in the last row of an episode whose task
            ended; empty is false.
        truncated: The column that is true in the last row of an episode whose time ended; if left out, episodes that
            did not terminate were truncated.
        environment_id: As for `write_store`; if left out, the one that the HDF5 file names, if any.
        action_space: As for `write_store`.
        action_low: The lower bound of actions, a number for all of their entries or one for each, as `-1,0`. By
            default, and unless `action_space` is given, actions keep to their range in the log.
        action_high: The upper bound; both are given, or neither.
        every: Keep the first of so many steps, for a log that is faster than the decisions are to be. The rewards of
            the steps left out are added to that of the one before; the agent then acts once in so many steps.
        missing: What is done with an episode in which a number is missing, NaN or infinite: `error`, which names the
            row and the column, `drop_episode`, or `end_episode`, which ends it before that row, neither terminated nor
            truncated. Unless it is `error`, groups or numbered arrays of a file that cannot be read are left out too.
        overwrite: If the dataset exists, replace it once the whole log is read; until then, or if that fails, it stays.
        split: The name of the episodes to read, if the file has splits, such as `valid` in one of robomimic's; by
            default all.
        progress: Whether to show progress bars and remarks.

    Returns:
        The dataset, as from `open_dataset`.

    Raises:
        InputError: If a log cannot be read, a column is missing or does not hold what it should, a number is missing,
            the name is taken or invalid, or pandas is not installed. Nothing is written in this case.

    Example:
        >>> log = {"run": [1, 1, 2, 2], "x": [0, 0.1, 0, 0.2], "push": [1, 1, -1, 1], "gain": [0.1, 0.1, -0.1, 0.3]}
        >>> dataset = decision_rnn.import_log(log, "local/cart", "x", "push", "gain", "run", progress=False)
        >>> dataset.store.num_episodes, dataset.store.episode_returns.round(3)
        (2, array([0.2, 0.2]))
    """
    several = isinstance(log, list | tuple)
    if several and log and isinstance(log[0], Mapping) and not any(map(np.ndim, log[0].values())):
        several = False  # the rows of one table
    logs = list(chain.from_iterable(map(expand_folder, log if several else [log])))
    if not logs:
        raise InputError(f"there are no logs for {name}: expected at least one.")
    single = {"rewards": reward, "time": time, "terminated": terminated, "truncated": truncated}
    names = {"observations": convert(observations, Names), "actions": convert(actions, Names)}
    names["episode"] = convert(episode or (), Names)
    names |= {role: (column,) for role, column in single.items() if column is not None}
    options = LogOptions({role: columns for role, columns in names.items() if columns}, split, missing)
    notes = list[str]()
    if (every := convert(every, PositiveInt, "every")) > 1:
        notes.append(f"only the first of every {every} steps is kept: agents act once in {every} steps of the log")
    check_new(name, overwrite)

    def read(first: Log) -> Iterator[Episode]:
        remarks: dict[str, dict[str, None]] = {}
        for number, each in enumerate(chain([first], opened)):
            if (each.columns, each.space) != (first.columns, first.space):
                layout = f"the columns {each.columns} and the observations {each.space or 'vectors'}"
                raise InputError(
                    f"log {number} ({label_log(logs[number])}) has {layout}, unlike log 0: import it alone."
                )
            yield from each.episodes if every == 1 else (_every(episode, every) for episode in each.episodes)
            for kind, subjects in each.notes.items():
                remarks.setdefault(kind, {}).update(dict.fromkeys(subjects))
        notes.extend(f"{kind}: {listed(list(subjects))}" for kind, subjects in remarks.items() if subjects)

    with quiet(not progress):
        opened = (open_log(each, options) for each in logs)
        first = next(opened)
        tell(f"{name} reads " + ", ".join(f"{role} from {listed(keys)}" for role, keys in first.keys.items() if keys))
        environment_id = environment_id or first.environment_id
        space, known = first.space, known_spaces(environment_id)
        if action_low is not None or action_high is not None:
            if action_space is not None:
                raise InputError("action_low and action_high bound numbers: leave out choices and the action space.")
            action_space = _box(action_low, action_high, first.action_size)
        episodes = read(first)
        if space is not None and known is not None and _has_parts(space, known[0]):
            space, episodes = known[0], map(partial(by_name, space=space), episodes)
        store = write_store(
            name,
            progress_bar(episodes, "importing", unit=" episodes"),
            environment_id,
            observation_space=space,
            action_space=action_space,
            missing=missing,
            overwrite=overwrite,
            columns=first.columns,
            notes=notes,
        )
        for note in notes:
            warn(f"{name}: {note}")
        for warning in (*warn_of_choices(store), *warn_of_copies(store), *warn_of_bounds(store)):
            warn(f"{name}: warning: {warning}")
    return open_dataset(name)


def _has_parts(space: gymnasium.Space[Any], known: gymnasium.Space[Any]) -> bool:
    """Whether an environment's observations have parts of the names and shapes of a log's space, which does not say
    what are choices."""
    with contextlib.suppress(InputError):  # it has images
        layouts = (Layout.of_space(each, "observations") for each in (space, known))
        own, expected = ({part.path: part.shape or (1,) for part in layout.parts} for layout in layouts)
        return own == expected
    return False


def _every(episode: Episode, number: int) -> Episode:
    """The first of every so many steps of an episode, with the rewards of all, its last observation and its end."""
    observations = np.concatenate([episode.observations[:-1:number], episode.observations[-1:]])
    rewards = np.add.reduceat(episode.rewards, np.arange(0, len(episode.rewards), number))
    return replace(episode, observations=observations, actions=episode.actions[::number], rewards=rewards)


def _box(action_low: Any, action_high: Any, size: int) -> Box:
    """The box of `size` actions with these bounds, a number or one for each action; InputError if they do not fit."""
    bounds = {"action_low": action_low, "action_high": action_high}
    low, high = (np.ravel(np.float32(convert(to_plain(bound), Numbers, key))) for key, bound in bounds.items())
    if not {len(low), len(high)} <= {1, size} or not (low < high).all():
        raise InputError(
            f"action_low is {action_low} and action_high {action_high}: expected a lower and a higher number, or both "
            f"for each of {pluralize(size, 'action')}."
        )
    return Box(np.broadcast_to(low, size), np.broadcast_to(high, size))
