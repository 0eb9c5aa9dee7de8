"""A process that takes the steps of another one's run, on its own rows of every batch: see ranks.py."""

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from decision_rnn.config import RunConfig
from decision_rnn.data.dataset import open_dataset
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.training.prepare import prepare, restore
from decision_rnn.training.ranks import Order, Ranks, join
from decision_rnn.training.slices import select_episodes
from decision_rnn.utils.errors import EnvironmentFailure
from decision_rnn.utils.messages import quiet
from decision_rnn.utils.plugins import import_plugins


@dataclass(frozen=True)
class Setup:
    """What a follower needs besides the data: the run's folder, arguments of `prepare`, and those of `restore` in a
    resumed run."""

    run: Path
    config: RunConfig
    spaces: tuple[gymnasium.Space, gymnasium.Space] | None
    initial: TrainedAgent | None
    saved: tuple[dict[str, Any], dict[str, Any]] | None

    def share(self, ranks: Ranks) -> None:
        """Let the other processes begin."""
        ranks.share(self.config.plugins)  # what unpickling the rest may need
        ranks.share(self)


def follow() -> Path:
    """Follow the first process until its run is trained, and return the run's folder; exits with code 1, silently, if
    it dies."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the first process ends this one
        signal.signal(number, signal.SIG_IGN)
    print("ready", flush=True)
    try:
        ranks = join()
        import_plugins(ranks.share())
        setup: Setup = ranks.share()
        config = setup.config
        with quiet():
            dataset = open_dataset(config.dataset, config.path, config.partial)
            seen = select_episodes(config, dataset.store)
        _, trainer, stream = prepare(config, seen, dataset.spec.return_scale, setup.spaces, setup.initial, ranks)
        if setup.saved is not None:
            restore(trainer, stream, *setup.saved)
        for order in ranks.orders():
            if order == Order.STEP:
                trainer.step(stream.sample())
            else:
                trainer.state_dict()
        return setup.run
    except EnvironmentFailure:  # the first process says so
        sys.exit(1)
