"""`python -m decision_rnn` is the same as `decision-rnn`."""

import os
import sys

from decision_rnn.cli.main import main
from decision_rnn.utils.workers import LIFELINE, end_with_stdin

if __name__ == "__main__":
    if LIFELINE in os.environ:  # a run of a comparison
        end_with_stdin()
    sys.exit(main())
