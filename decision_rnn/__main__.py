"""`python -m decision_rnn` is the same as `decision-rnn`."""

import sys

from decision_rnn.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
