"""The environments of memory against their rules, their scripted experts against the known optimum, their datasets."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiDiscrete
from gymnasium.utils.env_checker import check_env
from scipy.linalg import solve_discrete_are

from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.sources import SOURCES
from decision_rnn.data.sources.memory import DATASETS, memory_dataset
from decision_rnn.environments.memory import dark_key_to_door
from decision_rnn.environments.memory import popgym as experts
from decision_rnn.environments.memory.dark_key_to_door import DarkKeyToDoor, approach
from decision_rnn.environments.memory.tmaze import DOWN, LEFT, RIGHT, UP, TMaze
from decision_rnn.environments.playing import time_limit
from decision_rnn.environments.registry import check_environment, make_environment
from decision_rnn.evaluation.metrics import METRICS
from decision_rnn.utils.errors import InputError


def test_tmaze_follows_the_rules_of_rate() -> None:
    """Random walks, beside the rules in words: the free places are those of the corridor and its two goals; a move to
    any other place changes nothing; the goals end the episode, and so does step L + 2."""
    generator, steps_to = np.random.default_rng(0), {RIGHT: (1, 0), UP: (0, 1), LEFT: (-1, 0), DOWN: (0, -1)}
    ends, hints, noises = set(), [], []
    for episode in range(300):
        length = episode % 4 + 1
        maze = TMaze(length + 2)
        free = {(x, 0) for x in range(length + 1)} | {(length, 1), (length, -1)}
        observation, _ = maze.reset(seed=episode)
        hint, place = observation[1], (0, 0)
        hints.append(hint)
        noises.append(observation[3])
        assert observation[[0, 2]].tolist() == [0, 0]
        for time in itertools.count(1):
            action = int(generator.choice(4, p=(0.6, 0.15, 0.1, 0.15)))
            observation, reward, terminated, truncated, info = maze.step(action)
            moved = (place[0] + steps_to[action][0], place[1] + steps_to[action][1])
            place = moved if moved in free else place
            assert observation[:3].tolist() == [place[1], 0, place == (length, 0)]
            assert (reward, info, terminated) == (place[1] == hint, {"success": place[1] == hint}, place[1] != 0)
            assert truncated == (time == length + 2 and not terminated)
            if terminated or truncated:
                ends.add((reward, terminated, truncated))
                break
    assert ends == {(1.0, True, False), (0.0, True, False), (0.0, False, True)}
    for values, drawn in (((-1, 1), hints), ((-1, 0, 1), noises)):
        np.testing.assert_allclose([drawn.count(value) / 300 for value in values], 1 / len(values), atol=0.1)


@pytest.mark.parametrize("steps", [3, 9_600])
def test_tmaze_of_any_length_is_registered_when_asked_for(steps: int) -> None:
    name = f"decision_rnn/TMaze-{steps}-v0"
    with make_environment(name) as environment:
        environment.reset(seed=0)
        assert time_limit(environment) == steps == environment.unwrapped.corridor + 2


@pytest.mark.parametrize("environment", [TMaze(9), DarkKeyToDoor(2)])
def test_environments_keep_to_gymnasiums_interface(environment: gymnasium.Env) -> None:
    check_env(environment, skip_render_check=True)


def test_tmaze_data_have_every_length_and_half_wrong_turns() -> None:
    recipe = memory_dataset("memory/tmaze-7").recipe
    episodes = [recipe.player()(index) for index in range(200)]
    assert {len(episode.rewards) for episode in episodes} == {2, 3, 4, 5, 6}  # L + 1 steps, with L from 1 to T - 2
    assert [episode.rewards.sum() for episode in episodes] == [1, 0] * 100
    assert {tuple(episode.observations[0][:3]) for episode in episodes} == {(0, 1, 0), (0, -1, 0)}
    for episode in episodes:
        assert episode.terminated
        actions = episode.actions.argmax(1)  # one-hot
        assert actions[:-1].tolist() == [RIGHT] * (len(episode.rewards) - 1)
        hinted = UP if episode.observations[0][1] == 1 else DOWN
        assert (actions[-1] == hinted) == (episode.rewards[-1] == 1)
    np.testing.assert_array_equal(recipe.player()(5).observations, episodes[5].observations)


@pytest.mark.parametrize(("level", "k"), [("Easy", 4), ("Medium", 32), ("Hard", 64), ("53", 53), ("1", 1)])
def test_recall_experts_repeat_the_card_and_earn_all(level: str, k: int) -> None:
    pytest.importorskip("popgym")
    episode = memory_dataset(f"memory/repeat-previous-{level.lower()}").recipe.player()(0)
    assert episode.rewards.sum() == pytest.approx(1)
    assert len(episode.actions) > k + 40
    np.testing.assert_array_equal(episode.actions[k - 1 :], episode.observations[: len(episode.actions) - k + 1])
    if not level.isdigit():
        same = memory_dataset(f"memory/repeat-previous-{k}").recipe.player()(0)
        np.testing.assert_array_equal(same.observations, episode.observations)
        episode = memory_dataset(f"memory/repeat-first-{level.lower()}").recipe.player()(0)
        assert episode.rewards.sum() == pytest.approx(1)
        assert (episode.actions == episode.observations[0]).all()


@pytest.mark.parametrize(("level", "decks"), [("easy", 1), ("medium", 2), ("hard", 3)])
def test_autoencode_expert_repeats_the_cards_in_reverse(level: str, decks: int) -> None:
    pytest.importorskip("popgym")
    episode, cards = memory_dataset(f"memory/autoencode-{level}").recipe.player()(0), 52 * decks
    np.testing.assert_array_equal(episode.actions[cards - 1 :], episode.observations[:cards, 2:][::-1])
    assert episode.rewards.sum() == pytest.approx(1)


@pytest.mark.parametrize(("level", "kinds"), [("easy", 2), ("medium", 4), ("hard", 13)])
def test_count_recall_expert_counts_the_cards_seen(level: str, kinds: int) -> None:
    pytest.importorskip("popgym")
    episode = memory_dataset(f"memory/count-recall-{level}").recipe.player()(0)
    values, queries = episode.observations[:-1, :kinds], episode.observations[:-1, kinds:]
    counts = (values.cumsum(0) * queries).sum(1)
    np.testing.assert_array_equal(episode.actions.argmax(1), counts)
    assert episode.rewards.sum() == pytest.approx(1)


@pytest.mark.parametrize(("level", "decks"), [("easy", 1), ("medium", 2), ("hard", 3)])
def test_higher_lower_expert_counts_what_is_left(level: str, decks: int) -> None:
    pytest.importorskip("popgym")
    dataset = memory_dataset(f"memory/higher-lower-{level}")
    episodes = [dataset.recipe.player()(2 * index) for index in range(20)]
    for episode in episodes:
        ranks, actions = episode.observations.argmax(1).tolist(), episode.actions.argmax(1)
        for time, action in enumerate(actions):
            left = ranks[time + 1 :]  # the rest of the deck
            higher, lower = (sum(sign * (rank - ranks[time]) > 0 for rank in left) for sign in (1, -1))
            assert action == (higher < lower)
    assert np.mean([episode.rewards.sum() for episode in episodes]) == pytest.approx(dataset.references[1], abs=0.07)


@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_battleship_expert_tries_no_place_twice_and_first_those_beside_hits(level: str) -> None:
    pytest.importorskip("popgym")
    episode = memory_dataset(f"memory/battleship-{level}").recipe.player()(0)
    side, tried, beside = episode.actions.shape[1] // 2, set(), set()
    hits = episode.observations[1:, 1]
    for action, hit in zip(episode.actions, hits, strict=True):
        place = int(action[:side].argmax()), int(action[side:].argmax())
        assert place not in tried
        assert not beside - tried or place in beside
        tried.add(place)
        if hit:
            around = {(place[0] + dx, place[1] + dy) for dx, dy in ((0, 1), (1, 0), (0, -1), (-1, 0))}
            beside |= {(x, y) for x, y in around if 0 <= x < side and 0 <= y < side}
    assert (hits.sum(), episode.terminated) == (12, True)


def test_mine_sweeper_expert_hardly_ever_presses_what_must_be_a_mine() -> None:
    """Beside all boards that the observations allow: 120 boards of sixteen places with two mines. The expert reads one
    number at a time, so that it misses some."""
    pytest.importorskip("popgym")
    recipe, wins, pressed = memory_dataset("memory/minesweeper-easy").recipe, 0, list[bool]()
    places = [(x, y) for x in range(4) for y in range(4)]
    for index in range(0, 80, 2):
        episode, boards, shown = recipe.player()(index), list(itertools.combinations(places, 2)), set()
        for action, number in zip(episode.actions, episode.observations[1:].argmax(1), strict=True):
            place = int(action[:4].argmax()), int(action[4:].argmax())
            risks = {each: np.mean([each in board for board in boards]) for each in places if each not in shown}
            assert place in risks
            pressed.append(risks[place] == 1)
            shown.add(place)
            near = [sum(max(abs(x - place[0]), abs(y - place[1])) <= 1 for x, y in board) for board in boards]
            boards = [
                board for board, mines in zip(boards, near, strict=True) if mines == number and place not in board
            ]
        wins += len(shown) == 14 and bool(boards)
    assert wins > 24
    assert np.mean(pressed) < 0.02


@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_concentration_expert_turns_every_pair_that_it_has_seen(level: str) -> None:
    pytest.importorskip("popgym")
    episode = memory_dataset(f"memory/concentration-{level}").recipe.player()(0)
    cards = episode.actions.shape[1]
    shown = episode.observations.reshape(len(episode.observations), cards, -1).argmax(2)
    seen, up = dict[int, int](), set[int]()
    for (first, second), after in zip(episode.actions.argmax(1).reshape(-1, 2).tolist(), shown[2::2], strict=True):
        known = [value for card, value in seen.items() if card not in up]
        pairs = {value for value in known if known.count(value) > 1}
        assert not {first, second} & up
        assert not pairs or (seen.get(first) in pairs and after[first] == after[second])
        assert after[first] not in known or after[first] == after[second]
        seen |= {first: after[first], second: after[second]}
        up |= {first, second} if after[first] == after[second] else set()
    assert len(up) == cards


def test_bandit_expert_pulls_the_arm_that_has_paid_most_often() -> None:
    pytest.importorskip("popgym")
    episode = memory_dataset("memory/multiarmed-bandit-easy").recipe.player()(0)
    paid = dict.fromkeys(range(10), (1, 1))  # every arm is thought to have paid once
    for arm, won in zip(episode.actions.argmax(1).tolist(), episode.observations[1:, 1].tolist(), strict=True):
        assert paid[arm][0] / paid[arm][1] == max(wins / plays for wins, plays in paid.values())
        paid[arm] = paid[arm][0] + won, paid[arm][1] + 1
    assert episode.rewards.sum() > 0.3


@pytest.mark.parametrize(
    ("name", "gains", "unit", "costs"),
    [
        ("CartPole-v1", experts.CARTPOLE_GAINS, (1, 10.0), (np.eye(4), 0.1)),
        ("Pendulum-v1", experts.PENDULUM_GAINS, (np.ones(1), 1.0), (np.diag([1, 0.1]), 0.001)),
    ],
)
def test_gains_are_the_regulators_of_the_environments_steps(
    name: str, gains: Any, unit: tuple[Any, float], costs: tuple[np.ndarray, float]
) -> None:
    """The dynamics by differences of the environment's own steps, and the Riccati equation by SciPy."""
    environment = gymnasium.make(name).unwrapped
    environment.reset(seed=0)
    (action, force), (state_cost, action_cost) = unit, costs

    def after(state: np.ndarray) -> np.ndarray:
        environment.state = state
        environment.step(action)
        return np.array(environment.state)

    axes = np.eye(len(gains)) * 1e-5
    a = np.stack([(after(axis) - after(-axis)) / 2e-5 for axis in axes], axis=1)
    b = after(np.zeros(len(gains))) / force
    p = solve_discrete_are(a, b[:, None], state_cost, [[action_cost]])
    np.testing.assert_allclose(gains, (b @ p @ a) / (action_cost + b @ p @ b), rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("position-only-cartpole-easy", 200),
        ("position-only-cartpole-medium", 400),
        ("position-only-cartpole-hard", 600),
        ("velocity-only-cartpole-hard", 600),
        ("noisy-position-only-cartpole-hard", 200),
    ],
)
def test_cartpole_expert_never_falls(name: str, steps: int) -> None:
    pytest.importorskip("popgym")
    recipe = memory_dataset(f"memory/{name}").recipe
    for index in (0, 2, 4):  # the expert's own
        rewards = recipe.player()(index).rewards
        assert (len(rewards), rewards.sum()) == (steps, pytest.approx(1))


def test_pendulum_expert_is_upright_at_the_end_from_everywhere() -> None:
    pytest.importorskip("popgym")
    recipe = memory_dataset("memory/position-only-pendulum-hard").recipe
    episodes = [recipe.player()(2 * index) for index in range(12)]
    assert min(episode.observations[-1, 0] for episode in episodes) > 0.99  # the cosine of the angle
    assert np.mean([episode.rewards.sum() for episode in episodes]) > 0.75  # at random 0.25; the best mean is 0.83


def test_dark_key_to_door_follows_its_rules() -> None:
    """Random walks in small boxes around key and door, beside a bookkeeping of our own."""
    key, door = (4, 4), (4, 5)
    room, generator = DarkKeyToDoor(3, (key, door)), np.random.default_rng(0)
    steps = {0: (0, 0), 1: (-1, 0), 2: (0, 1), 3: (1, 0), 4: (0, -1)}
    observation, _ = room.reset(seed=0)
    assert observation[2:].tolist() == [0, 1]
    total, returns, events = 0.0, [], set()
    for time in range(150):
        if time % 50 == 0:
            place, had_key, opened, earned = tuple(observation[:2]), False, False, 0
        action = approach(room) if time % 7 else int(generator.integers(5))
        place = tuple(min(max(at + by, 0), 8) for at, by in zip(place, steps[action], strict=True))
        taken, reached = place == key and not had_key, place == door and had_key and not opened
        had_key, opened, earned = had_key or taken, opened or reached, earned + taken + reached
        observation, reward, terminated, truncated, info = room.step(action)
        total += reward
        assert reward == (taken or reached) / 3
        assert (observation[2], terminated, truncated) == (taken or reached, False, time == 149)
        if time % 50 == 49:
            assert observation[3] == 1
            assert info == {"episode_return": earned}
            returns.append(earned)
        else:
            assert observation[[0, 1, 3]].tolist() == [*place, 0]
            assert info == {}
        events.add((taken, reached))
    assert len(events) == 3
    assert total == pytest.approx(np.mean(returns))


def test_dark_key_to_door_evaluates_on_tasks_not_in_the_data() -> None:
    tasks = dark_key_to_door.tasks()
    assert len(set(tasks)) == len(tasks) == 81 * 80
    assert tasks[0] == ((8, 8), (1, 2))  # the same on every machine and in every version
    room, drawn = DarkKeyToDoor(), set()
    assert time_limit(make_environment("decision_rnn/DarkKeyToDoor-v0")) == 50 * room.episodes
    for seed in range(300):
        room.reset(seed=seed)
        drawn.add((room.key, room.door))
    assert len(drawn) > 250
    assert not drawn & set(tasks[:500])


def test_dark_key_to_door_data_go_from_random_to_the_optimum() -> None:
    recipe = memory_dataset("memory/dark-key-to-door").recipe
    histories = [recipe.player()(index) for index in range(4)]
    for history in histories:
        episodes = len(history.rewards) / 50
        assert 50 <= episodes <= 100
        returns = (history.rewards * episodes).reshape(-1, 50).sum(1)
        assert (returns[-5:] == 2).all()  # without noise
    actions = [history.actions.argmax(1) for history in histories]
    first, last = (np.concatenate([each[part] for each in actions]) for part in (slice(100), slice(-100, None)))
    assert np.bincount(first, minlength=5).min() > 40  # of 80: uniform
    assert np.mean(last == 0) > 0.5  # the door is open, and the agent stays


def test_last_episodes_is_the_mean_of_ten_inner_episodes() -> None:
    """Of twelve, the first four by the expert, the rest by an agent that stays where it is."""
    room, metric = DarkKeyToDoor(12), METRICS["last_episodes"]()
    room.reset(seed=0)
    for time in range(12 * 50):
        action = approach(room) if time < 4 * 50 else 0
        observation, *rest = room.step(action)
        value = metric.step(action, observation, *rest)
        if time < 4 * 50:
            assert value == (2 if time >= 49 else 0)
    assert value == pytest.approx(2 * 2 / 10)


@pytest.mark.parametrize(
    "name", ["position-only-cartpole-easy", "noisy-position-only-pendulum-easy", "repeat-previous-easy"]
)
def test_popgym_data_are_half_expert_and_half_noisy(name: str) -> None:
    pytest.importorskip("popgym")
    recipe = DATASETS[f"memory/{name}"].recipe
    returns = np.array([recipe.player()(index).rewards.sum() for index in range(30)])
    np.testing.assert_array_equal(recipe.player()(1).actions, recipe.player()(1).actions)
    assert returns[::2].mean() > returns[1::2].mean() + 0.2
    assert np.std(returns[1::2]) > 0.1


@pytest.mark.parametrize(("name", "episodes"), [("memory/dark-key-to-door", 2), ("memory/tmaze-9", 20)])
def test_store_holds_the_recipes_episodes(
    name: str, episodes: int, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(DATASETS[name].recipe, episodes=episodes)
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], recipe=recipe))
    store = open_dataset(name).store
    assert (store.num_episodes, store.environment_id) == (episodes, recipe.environment_id)
    if name == "memory/tmaze-9":
        assert (store.episode_returns.mean(), store.action_dim) == (0.5, 4)
    else:
        assert (store.observation_space, store.action_space) == (MultiDiscrete([9, 9, 2, 2]), Discrete(5))
    for index, episode in enumerate(store):
        for key in ("observations", "actions", "rewards"):
            np.testing.assert_array_equal(getattr(episode, key), getattr(recipe.player()(index), key))


@pytest.mark.parametrize("name", [*DATASETS, "memory/repeat-previous-33", "memory/tmaze-33"])
def test_datasets_have_references_targets_and_environments(name: str) -> None:
    dataset = memory_dataset(name)
    assert dataset.references[0] < dataset.references[1] == dataset.target_returns[0]
    assert (name in SOURCES["memory"].names()) == (name in DATASETS)
    if dataset.requirements:
        pytest.importorskip("popgym")
    check_environment(dataset.recipe.environment_id)


@pytest.mark.parametrize("name", ["tmaze-2", "tmaze-03", "repeat-previous-0", "repeat-firts-easy"])
def test_unknown_dataset_is_named_with_the_known_ones(name: str) -> None:
    with pytest.raises(InputError, match=rf"memory/{name}.*memory/repeat-first-easy"):
        open_dataset(f"memory/{name}")


def test_path_of_a_file_is_refused() -> None:
    with pytest.raises(InputError, match=r"memory/tmaze-9.*--path"):
        open_dataset("memory/tmaze-9", path="x.hdf5")
