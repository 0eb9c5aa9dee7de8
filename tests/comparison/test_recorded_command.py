"""The call that `decision_rnn.compare` records makes the same plan again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from swing import SMALL

import decision_rnn
from decision_rnn.backbones.mingru import MinGRUConfig


def test_recorded_call_makes_the_same_plan(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for values that are 0, False or empty, and for NumPy and pathlib types."""
    (inside / "compared_plugin.py").write_text("")
    plans: list[tuple[Any, str]] = []
    monkeypatch.setattr("decision_rnn.comparison.compare.run_plan", lambda plan, command: plans.append((plan, command)))
    decision_rnn.compare(
        decision_rnn.open_dataset("local/swing"),
        [],
        variants={"a": {"backbone": MinGRUConfig(width=16)}, "b": {"backbone": SMALL, "training": {"context": 9}}},
        controls=(),
        seeds=2,
        steps=10,
        output=inside / "compared",
        checkpoint_episodes=0,
        jobs=3,
        progress=False,
        plugins=("compared_plugin",),
        seed=5,
        partial="drop",
        agent={"previous_action": True},
        condition={"rtg_quantile": 0.0},
        evaluation={"target_returns": [np.float64(60.0)], "seed": np.int64(0)},
    )
    decision_rnn.compare("local/swing", backbones="lru,mingru", controls="none")
    decision_rnn.compare(["local/swing"])
    for plan, command in list(plans):
        eval(command, {"decision_rnn": decision_rnn})
        assert plans.pop()[0] == plan
