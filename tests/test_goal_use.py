"""The probe of how much an agent looks at its goals, on data whose actions are the way to them or have nothing to do
with them."""

from pathlib import Path

import goal_use as script
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

import decision_rnn
from decision_rnn import Episode, InputError


@pytest.mark.parametrize("towards", [True, False])
def test_loss_rises_with_other_goals_where_the_data_go_to_them(
    towards: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    generator, plane = np.random.default_rng(0), Box(-10.0, 10.0, (2,), np.float32)

    def episode() -> Episode:
        angle = generator.uniform(0, 2 * np.pi)
        way = np.array([np.cos(angle), np.sin(angle)])
        places = np.arange(31)[:, None] * 0.2 * way
        actions = np.tile(way, (30, 1)) if towards else generator.uniform(-1, 1, (30, 2))
        rows = np.concatenate([places, np.zeros((31, 2))], axis=1)
        return Episode(rows.astype(np.float32), actions.astype(np.float32), np.zeros(30), False, True)

    space = Dict(achieved_goal=plane, desired_goal=plane)
    decision_rnn.write_store("own/ways", [episode() for _ in range(60)], observation_space=space)
    settings = {"learning_rate": 5e-3, "ema_decay": 0.9}
    for goals in ("hindsight", "data"):
        decision_rnn.train(
            "own/ways",
            {"name": "mlp", "width": 32, "layers": 1},
            steps=100,
            output=tmp_path / goals,
            condition="none",
            training={"goals": goals, **settings},
            evaluation={"episodes": 0},
            progress=False,
        )
    own, other = script.losses(decision_rnn.load_agent(tmp_path / "hindsight"))
    if towards:
        assert own < 0.05
        assert other > own + 0.2
    else:
        assert own > 0.25
        assert other == pytest.approx(own, abs=0.05)
    script.main([str(tmp_path / "hindsight")])
    assert capsys.readouterr().out.splitlines()[-1] == f"| hindsight | {own:.3f} | {other:.3f} | {other - own:+.3f} |"
    with pytest.raises(InputError, match=r"training.goals is data: name runs with goals in hindsight"):
        script.losses(decision_rnn.load_agent(tmp_path / "data"))
