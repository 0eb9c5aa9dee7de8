"""Training: from a run's configuration to its last checkpoint, with resumption of interrupted runs."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from decision_rnn.config import CHOICES, RunConfig, flatten, from_dict, overlay, to_dict
from decision_rnn.data.dataset import Dataset, as_dataset
from decision_rnn.data.store import EpisodeStore
from decision_rnn.runs.checkpoint import load_agent
from decision_rnn.runs.folder import check_new_run, config_file, read_config
from decision_rnn.training.loop import Callback
from decision_rnn.training.prepare import check_config, prepare_run
from decision_rnn.training.run import Run
from decision_rnn.training.summary import summarise
from decision_rnn.utils.distributed import first_process_first, process_group, rank
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import working_alone
from decision_rnn.utils.messages import quiet, tell
from decision_rnn.utils.parsing import convert, to_plain
from decision_rnn.utils.plugins import import_plugins


def train(
    data: Any = None,
    backbone: Any = None,
    *,
    steps: int | None = None,
    seed: int | None = None,
    output: Path | str | None = None,
    callback: Callback | None = None,
    progress: bool = True,
    resume: bool = False,
    overwrite: bool = False,
    init_from: Run | str | Path | None = None,
    environment_id: str | None = None,
    plugins: Sequence[str] = (),
    **config: Any,
) -> Run:
    """Train an agent on a dataset; `decision-rnn train` does the same.

    Args:
        data: A dataset's name, such as `hopper-medium`, `minari/mujoco/hopper/medium-v0` or `local/mine`; a result of
            `open_dataset`, `write_store` or `record`; or episodes in memory (`Episode`, Minari's
            `EpisodeData`, or dictionaries of the arrays of an episode: `observations`, `actions`, `rewards`), which are
            stored as a dataset `episodes/HASH` named by their contents. May be left out if the run in `output` is
            resumed. Or the `RunConfig` of a run, whose keys the other arguments replace.
        backbone: Its name, a dictionary of its options including `name`, or its configuration; mingru if left out, or
            that of `init_from`.
        steps: Optimiser steps; 2,000 if left out.
        seed: The seed of the initial weights, the sampled segments and dropout; 0 if left out.
        output: The run's folder; `runs/DATASET-BACKBONE-seedN` if left out.
        callback: `callback(step, metrics, agent)`, called every `training.log_every` steps with the step (int), the
            metrics at that step (a dictionary of numbers: `loss`, `learning_rate`, ...) and a copy of the agent at that
            step (a `TrainedAgent` in evaluation mode). If it returns False, training stops there, with a checkpoint.
            The callback does not affect the training, and its time does not count as training time.
        progress: Whether to show a progress bar, the agent's size, how many episodes reach the target returns and, if
            `evaluation.episodes` is 0 or there is no environment, a table of losses at the end. With False, nothing is
            printed.
        resume: Resume the run in `output` from its last checkpoint, bit for bit as if it had not stopped. Whatever is
            left out, the data included, is as the run has it: `train(resume=True, output=folder)` suffices.
        overwrite: If `output` holds a run, replace it once the new run has been checked, such as when a notebook's cell
            runs again; other files in that folder stay.
        init_from: An agent whose weights training starts from: a run, or a name that `load_agent` accepts. Its
            architecture, its normalisation of observations and returns and its action box are kept, so that the agent
            first acts as it did before; references, target returns and the limit of the return-to-go are of the new
            data.
        environment_id: For episodes in memory: the Gymnasium id of their environment, if there is one.
        plugins: Modules to import first, which register backbones, objectives, conditions, metrics, sources or
            environments.
        config: Any other key of a run, with sections as dictionaries, as in its YAML file:
            `training={"batch_size": 32}`, `condition="none"`, `evaluation={"episodes": 20}`,
            `top_fraction=0.1`.

    Returns:
        The run; its `.agent` is the one of the last step, `.best` that of the lowest held-out loss. In a script that
        `torchrun` runs, every process takes the same steps on its own part of every batch, the first one writes the
        folder, and all return the run.

    Raises:
        InputError: If the data or a key is invalid, the evaluation environment cannot be made here (unless
            `evaluation={"episodes": 0}`), or the folder cannot be written or holds another run.
        KeyboardInterrupt: After Ctrl-C, a scheduler's signal or a notebook's stop button, once the current step is done
            and a checkpoint is written, from which `resume=True` continues. A second Ctrl-C stops at once.
    """
    import_plugins(plugins)
    initial = init_from.folder if isinstance(init_from, Run) else init_from
    options = {"backbone": backbone, "seed": seed, "plugins": plugins or None, "init_from": initial}
    options = {name: value for name, value in options.items() if value is not None}
    keys = flatten(run_keys(config | options, steps))
    run = train_keys(keys, "options of train", data, output, resume, overwrite, callback, progress, environment_id)
    if progress and rank() == 0 and not run.config.evaluation.episodes:
        tell(summarise(run))
    return run


def train_keys(
    keys: dict[str, Any],
    source: str,
    data: Any = None,
    output: Path | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    callback: Callback | None = None,
    progress: bool = True,
    environment_id: str | None = None,
) -> Run:
    """`train` with dotted keys of a run, whose errors name their `source`."""
    if resume and overwrite:
        raise InputError("expected resume or overwrite, not both")
    folder = None if output is None else Path(output)
    with process_group(), quiet(not progress or rank() > 0), ExitStack() as stack:
        if isinstance(data, RunConfig):
            keys, data = overlay(flatten(to_dict(data)), keys), None
        elif resume and folder is not None:
            saved = flatten(to_dict(read_config(folder)))
            if isinstance(data, Dataset):
                del saved["path"]  # which the dataset states
            keys = overlay(saved, keys)
        if folder is None or not resume:
            keys = with_architecture(keys if data is None else {"dataset": "", **keys})
        run_config = from_dict(keys, source)
        check_config(run_config)
        if folder is not None and rank() == 0:
            config_file(folder) if resume else check_new_run(folder, overwrite)
        # The data are opened, and made if they are missing, only now that all keys have been checked.
        data = run_config.dataset if data is None else data
        with first_process_first():
            dataset = as_dataset(data, environment_id, run_config.path, run_config.partial)
        if is_cloned(keys, dataset.store):
            run_config = from_dict({**keys, "condition.name": "none"}, source)
            tell(f"{dataset.name} has no rewards to condition on: the agent clones it (condition none)")
        run_config = replace(run_config, dataset=dataset.name, path=to_plain(dataset.path), partial=dataset.partial)
        folder = folder or Path("runs") / run_config.run_name
        if rank() == 0:
            stack.enter_context(working_alone(folder, "training", "training"))
            if not resume:
                check_new_run(folder, overwrite)
        return Run(folder, prepare_run(run_config, dataset, folder, resume, overwrite).run(callback))


def is_cloned(keys: Mapping[str, Any], store: EpisodeStore) -> bool:
    """Whether the default condition is `none`: data of no environment have no rewards, and no condition is chosen by
    flat keys of a run."""
    relabeled = keys.get("training.goal_relabeling") == "hindsight"
    chosen = relabeled or any(key.startswith("condition") for key in keys)
    return not (chosen or store.environment_id or store.rewards.any())


def run_keys(config: Mapping[str, Any], steps: int | None) -> dict[str, Any]:
    """The keyword arguments of a run as plain values, with `steps`, if there are any, in the training section."""
    if not isinstance(config.get("validation"), str | None):
        config = {**config, "validation": as_dataset(config["validation"]).name}
    keys: dict[str, Any] = to_plain(config)
    return keys if steps is None else {**keys, "training": {**(keys.get("training") or {}), "steps": to_plain(steps)}}


def with_architecture(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Flat keys of a run, completed by the architecture of the agent that their `init_from` names, if they do.

    Raises:
        InputError: If there is no such agent, or the keys choose another backbone, condition or objective.
    """
    name = convert(keys.get("init_from"), str | None, "init_from")
    if name is None:
        return dict(keys)
    saved = flatten(to_dict(load_agent(name).config))
    sections = (*CHOICES, "observation", "agent")
    architecture = {key: value for key, value in saved.items() if key.partition(".")[0] in sections}
    for key in (f"{section}.name" for section in CHOICES):
        if keys.get(key, saved[key]) != saved[key]:
            raise InputError(f"{key} is {keys[key]!r:.100}, but init_from {name} has {saved[key]}. Leave it out.")
    return overlay(architecture, keys)
