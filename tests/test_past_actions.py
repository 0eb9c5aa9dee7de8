"""The probe of past actions, on actions whose predictability is known."""

import numpy as np
import past_actions as script
import pytest


def walk(share: float, generator: np.random.Generator) -> np.ndarray:
    """Two entries of variance 1, of which the last step explains share^2."""
    noise = generator.normal(size=(1000, 2))
    steps = [noise[0]]
    for drawn in noise[1:]:
        steps.append(share * steps[-1] + (1 - share**2) ** 0.5 * drawn)
    return np.array(steps)


def test_past_actions_explain_the_share_that_they_determine() -> None:
    generator = np.random.default_rng(0)
    episodes = [walk(0.8, generator) for _ in range(40)]
    assert script.explained(episodes, 1) == pytest.approx(0.64, abs=0.04)
    assert script.explained(episodes, 10) == pytest.approx(0.64, abs=0.04)
    alternating = [np.resize([[1.0], [0.0], [-1.0], [0.0]], (50, 1)) for _ in range(20)]
    assert script.explained(alternating, 1) == pytest.approx(0, abs=0.05)
    assert script.explained(alternating, 2) == pytest.approx(1)
