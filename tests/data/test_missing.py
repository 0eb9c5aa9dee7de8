"""`write_store` with missing numbers, and with no observation after the last action."""

from dataclasses import replace

import numpy as np
import pytest

from decision_rnn.data.episode import Episode
from decision_rnn.data.sources.local import write_store
from decision_rnn.utils.errors import InputError


@pytest.mark.usefixtures("local")
def test_write_store_drops_or_ends_episodes_with_missing_numbers(episodes: list[Episode]) -> None:
    whole, broken = episodes[1], episodes[2]
    broken.rewards[5] = np.nan
    with pytest.raises(InputError, match="episode 1 has rewards that are not finite in float32, as at 5"):
        write_store("local/error", [whole, broken])
    dropped = write_store("local/dropped", [whole, broken], missing="drop_episode")
    assert dropped.fingerprint == write_store("local/whole", [whole]).fingerprint
    ended = write_store("local/ended", [whole, broken], missing="end_episode")
    cut = Episode(broken.observations[:6], broken.actions[:5], broken.rewards[:5], False, False)
    assert ended.fingerprint == write_store("local/cut", [whole, cut]).fingerprint
    (note,) = ended.source["notes"]
    assert note == "1 of 2 episodes had missing numbers: cut before the first (missing end_episode)"


@pytest.mark.usefixtures("local")
def test_missing_final_observation_keeps_the_steps_and_the_end(episodes: list[Episode]) -> None:
    episodes[1].observations[-1, 2] = np.inf
    (read,) = write_store("local/last", episodes[1:2], missing="end_episode")
    assert read.terminated
    np.testing.assert_array_equal(read.rewards, episodes[1].rewards)
    np.testing.assert_array_equal(read.observations[-1], read.observations[-2])


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize("missing", ["error", "end_episode"])
def test_as_many_observations_as_actions_raise_what_to_do(episodes: list[Episode], missing: str) -> None:
    log = replace(episodes[1], observations=episodes[1].observations[:-1])
    with pytest.raises(InputError, match="if no observation follows the last action, repeat the last one"):
        write_store("local/log", [log], missing=missing)
