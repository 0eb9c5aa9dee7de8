"""Hindsight goals in training batches, against the episodes they come from; an agent that reaches goals by them."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import scipy.stats
import torch
from gymnasium.spaces import Box, Dict
from run_config import parse_run

import decision_rnn
from decision_rnn import Episode, InputError
from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.hindsight import GoalEntries, goal_changes
from decision_rnn.data.store import EpisodeStore, top_episodes
from decision_rnn.data.stream import StepStream
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.evaluation.results import TargetResult
from decision_rnn.training.prepare import prepare

ENTRIES = GoalEntries(slice(0, 2), slice(2, 4))
LENGTHS = (3, 1, 14, 6)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """Episodes whose achieved goal at observation i of episode e is (e, i); the desired one is -1."""

    def episode(number: int, length: int) -> Episode:
        achieved = np.stack([np.full(length + 1, number), np.arange(length + 1)], axis=1)
        rows = np.concatenate([achieved, np.full((length + 1, 3), -1)], axis=1).astype(np.float32)
        return Episode(rows, np.zeros((length, 1), np.float32), np.full(length, number), False, True)

    path = tmp_path_factory.mktemp("goals") / "store"
    return EpisodeStore.write(path, [episode(*each) for each in enumerate(LENGTHS)], environment_id=None, source={})


@pytest.mark.parametrize(("tbptt_segments", "top"), [(1, 1.0), (3, 1.0), (3, 0.5)])
def test_hindsight_goals_are_reached_later_in_the_episode_and_hold_until_then(
    store: EpisodeStore, tbptt_segments: int, top: float
) -> None:
    stream = StepStream(top_episodes(store, top), 5, 64, 0, tbptt_segments=tbptt_segments, goals=ENTRIES)
    before: list[Any] = [None] * 64
    for _ in range(30):
        batch = stream.sample()
        rows = batch.observation.int().tolist()
        assert torch.equal(batch.return_to_go[..., 0], batch.observation[..., 1] - batch.observation[..., 3])
        for row in range(64):
            previous = None if batch.reset[row, 0] or tbptt_segments == 1 else before[row]
            for step in rows[row]:
                episode, now, goal_episode, goal, rest = step
                assert goal_episode == episode
                assert now < goal <= LENGTHS[episode]
                assert rest == -1
                if previous is not None and previous[0] == episode and previous[1] > now:
                    assert goal == previous[1]
                previous = episode, goal
            before[row] = previous


def reference_goals(episode: int, step: int, discount: float, count: int) -> np.ndarray:
    """Goals (count, 2) of a step by OGBench's `GCDataset.sample_goals`, written in NumPy; its uniform goals are
    rounded, so that the nearest and the last one are half as probable, which these are not, and its geometric ones end
    with the episode, where these are drawn again."""
    generator, last = np.random.default_rng(1), LENGTHS[episode]
    if discount < 1:
        ahead = step + generator.geometric(1 - discount, 20 * count)
        ahead = ahead[ahead <= last][:count]
    else:
        ahead = generator.integers(step + 1, last + 1, count)
    return np.stack([np.full(count, episode), ahead], axis=1)


@pytest.mark.parametrize("discount", [1.0, 0.8])
@pytest.mark.parametrize(("episode", "step"), [(2, 4), (3, 0), (1, 0)])
def test_hindsight_goals_of_single_steps_are_distributed_as_in_ogbench(
    store: EpisodeStore, discount: float, episode: int, step: int
) -> None:
    stream = StepStream(store, 1, 4096, 0, goals=ENTRIES, goal_discount=discount)
    steps = torch.cat([stream.sample().observation[:, 0] for _ in range(20)]).int().numpy()
    ours = steps[(steps[:, 0] == episode) & (steps[:, 1] == step), 2:4]
    theirs = reference_goals(episode, step, discount, 50_000)
    counts = [np.bincount(goals @ (20, 1), minlength=80) for goals in (ours, theirs)]
    table = np.stack(counts)[:, np.sum(counts, axis=0) > 0]
    assert table.shape[1] == 1 or scipy.stats.chi2_contingency(table).pvalue > 1e-3


def test_subgoals_are_what_the_episode_achieves_some_steps_later_or_the_goal_if_that_is_nearer(
    store: EpisodeStore,
) -> None:
    stream = StepStream(store, 5, 64, 0, tbptt_segments=3, goals=ENTRIES, subgoal_steps=4)
    for _ in range(30):
        batch = stream.sample()
        episode, now, _, goal = batch.observation[..., :4].unbind(-1)
        assert torch.equal(batch.subgoal[..., 0], episode)
        assert torch.equal(batch.subgoal[..., 1], torch.minimum(now + 4, goal))


def test_goal_changes_are_those_of_achieved_goals_within_episodes(store: EpisodeStore) -> None:
    changes = [min(i + 4, length) - i for length in LENGTHS for i in range(length)]
    rms = np.sqrt(np.mean(np.square(changes)))
    number_and_step = goal_changes(store, ENTRIES, 4)
    np.testing.assert_allclose(number_and_step, [1, rms], rtol=1e-6)  # the episode's number never changes


@pytest.mark.parametrize("p_swappedgoal", [0.0, 0.5])
def test_hindsight_goals_continue_from_a_saved_state(store: EpisodeStore, p_swappedgoal: float) -> None:
    def stream() -> StepStream:
        return StepStream(store, 4, 8, 0, tbptt_segments=4, goals=ENTRIES, p_swappedgoal=p_swappedgoal)

    first, second = stream(), stream()
    for _ in range(3):
        first.sample()
    second.load_state_dict(first.state_dict())
    assert all(torch.equal(first.sample().observation, second.sample().observation) for _ in range(3))


def test_swapped_goals_lie_on_the_way_on_from_where_another_episode_passes(tmp_path: Path) -> None:
    """Two episodes that meet at 0: one from -3 to 3, the other from 100 to -200 in steps of a hundred."""
    tracks = [np.arange(-3, 4), np.array([100, 0, -100, -200])]
    episodes = [
        Episode(np.stack([track, np.full(len(track), 999)], axis=1).astype(np.float32), np.zeros((len(track) - 1, 1)),
                np.zeros(len(track) - 1), False, True)
        for track in tracks
    ]  # fmt: skip
    store = EpisodeStore.write(tmp_path / "store", episodes, environment_id=None, source={})
    entries = GoalEntries(slice(0, 1), slice(1, 2))
    stream = StepStream(store, 1, 4096, 0, goals=entries, p_swappedgoal=0.5, goal_discount=0.9)
    seen: dict[tuple[int, int], set[int]] = {}
    shares = []
    for _ in range(20):
        batch = stream.sample()
        now, goal = batch.observation[:, 0].int().T.tolist()
        for here, there, steps in zip(now, goal, (-batch.return_to_go[:, 0, 0]).int().tolist(), strict=True):
            seen.setdefault((here, there), set()).add(steps)
        shares.append(np.mean([there in (-100, -200) for here, there in zip(now, goal, strict=True) if here == -1]))
    ways = {-3: 3, -2: 2, -1: 1}  # steps to the meeting point
    for here, steps in ways.items():
        assert seen[here, -100] == {steps + 1}
        assert seen[here, -200] == {steps + 2}
        assert seen[here, 3] == {3 - here}  # of its own episode, or through the meeting point, which is as far
    assert seen[100, 3] == {4}
    assert not any(there == 100 for here, there in seen if here != 100)  # nothing leads there
    # From -1 the goal is 0 with probability 0.1 / (1 - 0.9^4), then half are swapped, half of these to the other track.
    assert np.mean(shares) == pytest.approx(0.1 / (1 - 0.9**4) * 0.5 * 0.5, abs=0.01)


def test_goals_are_swapped_again(tmp_path: Path) -> None:
    """Five episodes of two steps, each of which begins where the one before ends."""
    tracks = [np.arange(2 * i, 2 * i + 3) for i in range(5)]
    episodes = [
        Episode(
            np.stack([track, np.full(3, 999)], axis=1).astype(np.float32), np.zeros((2, 1)), np.zeros(2), False, True
        )
        for track in tracks
    ]
    store = EpisodeStore.write(tmp_path / "store", episodes, environment_id=None, source={})
    stream = StepStream(store, 1, 4096, 0, goals=GoalEntries(slice(0, 1), slice(1, 2)), p_swappedgoal=0.5)
    farthest = set()
    for _ in range(20):
        batch = stream.sample()
        now, goal = batch.observation[:, 0].int().T
        assert torch.equal(goal - now, -batch.return_to_go[:, 0, 0].int())
        farthest |= set(goal[now == 1].tolist())
    assert farthest == set(range(2, 11))


class Point(gymnasium.Env):
    """A point in the plane that moves by the action; a goal that is reached ends the episode."""

    def __init__(self) -> None:
        plane = Box(-4.0, 4.0, (2,), np.float32)
        self.observation_space = Dict(achieved_goal=plane, desired_goal=plane, observation=Box(-1.0, 1.0, (1,)))
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = np.zeros(2, np.float32)
        angle = self.np_random.uniform(0, 2 * np.pi)
        self.goal = (2 * np.array([np.cos(angle), np.sin(angle)])).astype(np.float32)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = np.clip(self.place + 0.3 * action, -4, 4).astype(np.float32)
        near = bool(np.linalg.norm(self.place - self.goal) < 0.6)
        return self._observation(), float(near), near, False, {"success": near}

    def _observation(self) -> dict[str, np.ndarray]:
        return {"achieved_goal": self.place, "desired_goal": self.goal, "observation": np.zeros(1, np.float32)}


@pytest.fixture
def wandering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Episodes that go straight on in a direction of chance, whatever the goal, half of them slowly."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    gymnasium.register("test/Point-v0", Point, max_episode_steps=25)
    generator, heading = np.random.default_rng(1), np.zeros(2)

    def wander(observation: Any) -> np.ndarray:
        if not observation["achieved_goal"].any():
            angle, speed = generator.uniform(0, 2 * np.pi), generator.choice([0.3, 1.0])
            heading[:] = speed * np.cos(angle), speed * np.sin(angle)
        return heading.astype(np.float32)

    return decision_rnn.record(wander, "test/Point-v0", "local/wandering", episodes=300, progress=False).name


def test_agents_reach_goals_that_the_data_ignore_and_sooner_if_asked(wandering: str, tmp_path: Path) -> None:
    """At full speed the goal is five steps away, at the speed of half of the episodes sixteen."""

    def evaluated(goals: str, condition: str, steps: int = 200, **options: int) -> TargetResult:
        run = decision_rnn.train(
            wandering,
            backbone={"name": "mlp", "width": 32, "layers": 1},
            steps=steps,
            output=tmp_path / f"{goals}-{condition}",
            progress=False,
            condition={"name": condition, **options},
            objective="mse",  # a mixture takes longer to tell its modes apart
            training={"goal_relabeling": goals, "learning_rate": 5e-3, "ema_decay": 0.9},
            evaluation={"episodes": 0, "max_episode_steps": 40},
        )
        (result,) = run.evaluate(episodes=40, processes=1, progress=False).targets
        return result

    assert evaluated("none", "none").return_mean < 0.5
    at_any_time, soon = (evaluated("hindsight", condition) for condition in ("none", "time_to_goal"))
    assert at_any_time.return_mean == soon.return_mean == 1
    assert soon.length_mean < 6 < 7 < at_any_time.length_mean
    by_subgoals = evaluated("hindsight", "subgoal", steps=400, subgoal_steps=3)
    assert by_subgoals.return_mean == 1
    assert by_subgoals.length_mean < 6
    assert export_onnx(decision_rnn.load_agent(tmp_path / "hindsight-subgoal"), tmp_path / "subgoal.onnx") < 1e-5
    run = tmp_path / "hindsight-time_to_goal"
    sooner = decision_rnn.evaluate(run, episodes=5, target_returns=[-3], processes=1)
    assert not sooner.remarks  # which compare with returns of the data
    assert sooner.targets[0].in_range is None
    assert export_onnx(decision_rnn.load_agent(run), tmp_path / "policy.onnx") < 1e-5


def test_hindsight_statistics_leave_those_of_the_data(wandering: str) -> None:
    """Desired goals are normalised as places, though in the data they are other places."""
    opened = open_dataset(wandering)
    data, space = opened.store, opened.spec.observation_space
    mean = data.observation_mean.copy()
    config, *_ = parse_run("test", [wandering, "--condition", "none", "--training.goal_relabeling", "hindsight"])
    agent, _, _ = prepare(config, data, 1.0, Box(-1.0, 1.0, (2,)))
    entries = GoalEntries.of_space(space, wandering)
    np.testing.assert_array_equal(data.observation_mean, mean)
    assert torch.equal(agent.encoder.mean[entries.desired], agent.encoder.mean[entries.achieved])
    assert not np.allclose(mean[entries.desired], mean[entries.achieved])


def test_hindsight_goals_need_a_condition_and_observations_with_goals(tmp_path: Path) -> None:
    for changes, key in (
        ({"agent": {"conditioning": "token"}}, "agent.conditioning"),
        ({"condition": "return_to_go"}, "condition"),
        ({"condition": "time_to_goal", "training": {"goal_relabeling": "none"}}, "training.goal_relabeling"),
    ):
        training = {"goal_relabeling": "hindsight", **changes.pop("training", {})}
        with pytest.raises(InputError, match=key.replace(".", r"\.")):
            decision_rnn.train("hopper-medium", output=tmp_path, training=training, **changes)
    for goal in ({}, {"desired_goal": Box(-1, 1, (3,))}):
        with pytest.raises(InputError, match=r"local/x .*achieved_goal"):
            GoalEntries.of_space(Dict(achieved_goal=Box(-1, 1, (2,)), **goal), "local/x")
