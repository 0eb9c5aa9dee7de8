"""Times d3rlpy's sampling of trajectories in an environment of its own, because its dependencies conflict with ours.

Run by bench_d3rlpy.py as `PYTHON d3rlpy_worker.py ARRAYS.npz`; imports nothing of decision_rnn. Each line of input is a
JSON list [batch size, length, batches]; the answer is the mean CPU time of a batch, in seconds.
"""

import json
import os
import sys
import time

import numpy as np


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # d3rlpy and its imports print to stdout
    try:
        import d3rlpy
    except ImportError as error:
        print(json.dumps({"error": str(error)}), file=answers)
        return
    arrays = dict(np.load(sys.argv[1]))
    buffer = d3rlpy.dataset.MDPDataset(**arrays, action_space=d3rlpy.ActionSpace.CONTINUOUS)
    print(json.dumps({"episodes": len(buffer.episodes)}), file=answers)
    for line in sys.stdin:
        batch_size, length, batches = json.loads(line)
        begun = time.process_time()
        for _ in range(batches):
            buffer.sample_trajectory_batch(batch_size, length)
        print(json.dumps((time.process_time() - begun) / batches), file=answers)


if __name__ == "__main__":
    main()
