"""Actions beyond [-1, 1]: what is advised depends on the box of the environment that carried them out."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from decision_rnn.data.actions import check_actions
from decision_rnn.data.store.episode import Episode
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.errors import InputError

Write = Callable[..., EpisodeStore]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a store of one episode whose largest action is given."""

    def write(largest: float, environment_id: str, **source: object) -> EpisodeStore:
        actions = np.linspace(-largest, largest, 30).reshape(10, 3)
        episode = Episode(np.random.default_rng(0).normal(size=(11, 11)), actions, np.ones(10), True, False)
        return EpisodeStore.write(tmp_path / "store", [episode], environment_id=environment_id, source=source)

    return write


def test_in_a_box_from_minus_one_to_one_clipping_is_advised(write: Write) -> None:
    """MuJoCo clips controls to its range: a Gaussian policy on Hopper acts up to 5."""
    store = write(5.0, "Hopper-v5")
    with pytest.raises(InputError, match=r"as large as 5, .*box of Hopper-v5 is the same.*--actions clip$") as raised:
        check_actions(store, "keep")
    assert "Rescale" not in str(raised.value)
    check_actions(store, "clip")


def test_in_another_box_rescaling_is_advised_and_clipping_refused(write: Write) -> None:
    store = write(2.0, "Pendulum-v1")
    with pytest.raises(
        InputError, match=r"as large as 2, .*box of Pendulum-v1 is -2 to 2: rescale.*RescaleAction"
    ) as e:
        check_actions(store, "keep")
    assert "--actions clip" not in str(e.value)
    with pytest.raises(InputError, match=r"--actions clip would put other actions.*Pendulum-v1 is -2 to 2.*Rescale"):
        check_actions(store, "clip")


@pytest.mark.parametrize("altered", [False, True])
def test_without_the_environment_both_ways_are_named(write: Write, altered: bool) -> None:
    settings = {"kwargs": {"frame_skip": 1}, "max_episode_steps": 1000}
    store = write(2.0, "Hopper-v5", environment_settings=settings) if altered else write(2.0, "factory/Plant-v0")
    with pytest.raises(InputError, match=r"is -1 to 1, train with --actions clip; where it is larger, rescale"):
        check_actions(store, "keep")
    check_actions(store, "clip")


def test_actions_in_the_box_are_kept(write: Write) -> None:
    check_actions(write(1.005, "Hopper-v5"), "keep")


def test_the_stream_clips_what_is_taken_and_what_was_taken_before(write: Write) -> None:
    store = write(5.0, "Hopper-v5")
    plain, clipped = (StepStream(store, 4, 8, seed=0, clip_actions=clip).sample() for clip in (False, True))
    assert plain.action.abs().max() > 1
    for name, values in clipped._asdict().items():
        expected = getattr(plain, name)
        expected = expected.clamp(-1, 1) if "action" in name else expected
        torch.testing.assert_close(values, expected, rtol=0, atol=0)
    assert store.table[:, store.columns["action"]].max() == 5.0  # the store itself is left alone
