"""What `train` says about segments, episodes and a carried state."""

import re

import numpy as np
import pytest
from run_config import parse_run

from decision_rnn.data.store import Episode, EpisodeStore
from decision_rnn.training.warnings import describe_segments, segment_warnings


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """Episodes of 10, 30 and 60 steps."""
    episodes = [Episode(np.zeros((n + 1, 2)), np.zeros((n, 1)), np.ones(n), True, False) for n in (10, 30, 60)]
    return EpisodeStore.write(tmp_path_factory.mktemp("store") / "s", episodes, environment_id="Toy-v0", source={})


GRU = "--backbone gru --backbone.init_half_life"
FROM_EPISODES = "--training.segment_start episode"


@pytest.mark.parametrize(
    ("words", "described", "warned"),
    [
        (f"{GRU} 1", r"anywhere; training\.context \(20\) .* \(30 steps\)", None),
        (f"{GRU} 1 --training.context 30", "segments of 30 steps, each beginning anywhere$", None),
        ("--backbone mlp", "segments of 20 steps, each beginning anywhere$", None),
        (f"{GRU} 100", "going on with its state in later batches, 50 segments on average$", None),
        (
            f"{GRU} 100 --training.tbptt_segments 1",
            "longer dependencies",
            r"memory of gru is longer than training\.context \(20\)",
        ),
        (f"{GRU} 100 --training.tbptt_segments 1 --evaluation.inference window", "longer dependencies", None),
        (
            f"{GRU} 1 {FROM_EPISODES}",
            "each beginning with an episode",
            r"50.0% of the steps .* training\.context to 60",
        ),
        (
            f"{GRU} 1 {FROM_EPISODES} --training.context 60",
            "segments of 60 steps, each beginning with an episode$",
            None,
        ),
        (f"{GRU} 100 {FROM_EPISODES}", "with an episode and going on with its state", None),
    ],
)
def test_train_says_what_slices_are_and_warns_where_they_do_not_fit_the_episodes(
    store: EpisodeStore, words: str, described: str, warned: str | None
) -> None:
    config = parse_run("decision-rnn train", ["toy", *words.split()])[0]
    remembers = config.backbone.name != "mlp"
    assert re.search(described, describe_segments(config, store, remembers))
    warnings = list(segment_warnings(config, store))
    assert len(warnings) == (warned is not None)
    if warned:
        assert re.search(warned, warnings[0])
