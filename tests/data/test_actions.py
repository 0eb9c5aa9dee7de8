"""Actions beyond [-1, 1]: the advice depends on the action space of the environment that executed them."""

import shutil
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


def test_check_actions_advises_clipping_if_the_action_space_is_minus_one_to_one(write: Write) -> None:
    """MuJoCo clips controls to their range, so that actions of a Gaussian policy on Hopper may be as large as 5."""
    store = write(5.0, "Hopper-v5")
    with pytest.raises(InputError, match=r"as large as 5, .*clips to the same box.*--actions clip$") as raised:
        check_actions(store, "keep")
    assert "Rescale" not in str(raised.value)
    check_actions(store, "clip")
    shutil.rmtree(store.path)
    check_actions(write(1.005, "Hopper-v5"), "keep")


def test_check_actions_advises_rescaling_and_rejects_clipping_in_other_action_spaces(write: Write) -> None:
    store = write(2.0, "Pendulum-v1")
    for actions in ("keep", "clip"):
        with pytest.raises(InputError, match=r"as large as 2, .*box of Pendulum-v1 is -2 to 2: rescale.*RescaleAction"):
            check_actions(store, actions)


@pytest.mark.parametrize("altered", [False, True])
def test_check_actions_without_the_environment_advises_clipping_or_rescaling(write: Write, altered: bool) -> None:
    settings = {"kwargs": {"frame_skip": 1}, "max_episode_steps": 1000}
    store = write(2.0, "Hopper-v5", environment_settings=settings) if altered else write(2.0, "factory/Plant-v0")
    with pytest.raises(InputError, match=r"unknown here, is -1 to 1, train with --actions clip; where .*rescale"):
        check_actions(store, "keep")
    check_actions(store, "clip")


def test_stream_clip_actions_clips_action_and_previous_action(write: Write) -> None:
    store = write(5.0, "Hopper-v5")
    plain, clipped = (StepStream(store, 4, 8, seed=0, clip_actions=clip).sample() for clip in (False, True))
    assert plain.action.abs().max() > 1
    for name, values in zip(clipped._fields[:-1], clipped[:-1], strict=True):
        expected = getattr(plain, name)
        expected = expected.clamp(-1, 1) if "action" in name else expected
        torch.testing.assert_close(values, expected, rtol=0, atol=0)
    assert store.table[:, store.columns["action"]].max() == 5.0  # the store itself is unchanged
