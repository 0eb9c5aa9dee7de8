"""`python -m decision_rnn` is `decision-rnn`."""

import sys

from decision_rnn.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
