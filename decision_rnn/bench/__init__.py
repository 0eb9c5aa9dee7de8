"""Benchmarks of decision_rnn against the alternatives: `decision-rnn bench NAME`."""

from collections.abc import Callable

from decision_rnn.bench.backbones import bench_backbones
from decision_rnn.bench.data import bench_data
from decision_rnn.bench.deploy import bench_deploy
from decision_rnn.bench.measure import Row
from decision_rnn.bench.rollout import bench_rollout
from decision_rnn.bench.scan import bench_scan
from decision_rnn.bench.train import bench_train

BENCHES: dict[str, Callable[..., list[Row]]] = {
    "train": bench_train,
    "rollout": bench_rollout,
    "data": bench_data,
    "scan": bench_scan,
    "backbones": bench_backbones,
    "deploy": bench_deploy,
}
"""The benchmarks by name. The parameters of each are its options on the command line."""
