"""scripts/large_store.py: the report of results/large-store."""

from typing import Any

import large_store


def test_large_store_report_names_the_sizes_of_the_timed_batches() -> None:
    peaks = {"VmHWM": 300.0, "RssAnon": 200.0, "RssFile": 100.0}
    names = (large_store.SMALL, large_store.LARGE)
    measured: dict[str, dict[str, Any]] = {
        "write": {"seconds": 9.0, "seconds_small": 1.0, "generating": 5.0, "peaks": peaks},
        "convert": {"seconds": 5.0},
        "open": {"verifying": 3.0, "again": 0.001, "again_small": 0.001, "peaks": peaks},
        "train": {"seconds": 20.0, "begun": peaks, "peaks": peaks},
        "sample": {"batches": 100, "batch_size": 32, "context": 10, "microseconds": 500.0, "peaks": peaks},
        "step": {f"{kind} {name}": 0.1 for kind in ("step", "batch") for name in names}
        | {"batch_size": 128, "context": 30},
    }
    text = large_store.report(2_000_000, measured, 10**8)
    assert "| a batch of 128 x 30 | " in text
    assert "from a disk, a batch takes 128 scattered reads" in text
    assert "| drawing 100 batches of 32 x 10, 2,000,000 steps in all | " in text
    assert "64" not in text
