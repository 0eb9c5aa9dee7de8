"""`decision-rnn` on a hopper-medium of a few thousand steps: everything is real except the size."""

import os
import sys
from dataclasses import replace

from decision_rnn.cli.main import main
from decision_rnn.data.sources import standin
from decision_rnn.utils import workers

NAME, STEPS = "standin/hopper-medium", 3_000

if __name__ in ("__main__", "__mp_main__"):  # in spawned workers too, which import this file
    standin.RECIPES[NAME] = replace(standin.RECIPES[NAME], steps=STEPS)

if __name__ == "__main__":
    for folder in ("DECISION_RNN_CACHE", "MINARI_DATASETS_PATH"):
        if folder not in os.environ:
            sys.exit(f"set {folder}: this replaces hopper-medium by a small one, and would replace your own")
    workers.PROGRAM = (sys.executable, __file__)  # the runs of a comparison too
    sys.exit(main())
