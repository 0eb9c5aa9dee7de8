"""The held-out score: predictions against the actor step by step, R2 and least squares by hand, planted faults."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from scipy import stats
from swing import SMALL

from decision_rnn import EpisodeStore, InputError, Run, import_log, open_dataset, train, write_store
from decision_rnn.agent.conditions.return_to_go import ReturnToGo
from decision_rnn.cli.main import main
from decision_rnn.config import from_dict
from decision_rnn.data.limits import return_to_go_limits
from decision_rnn.data.sources.standin import StandinSource
from decision_rnn.environments.episode import Episode
from decision_rnn.evaluation import held_out
from decision_rnn.evaluation.actor import EnvironmentActor
from decision_rnn.evaluation.held_out import HeldOutScore, held_out_score, plot_held_out, predict_actions, score_run
from decision_rnn.evaluation.results import read_result
from decision_rnn.evaluation.statistics import error_over_episodes
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.training.prepare import make_agent

REFERENCES = ["linear regression", "mean action", "previous action"]


def make(store: EpisodeStore, pendulum: Any, backbone: str = "mingru", **keys: Any) -> TrainedAgent:
    """An untrained agent for the episodes of a store, as a checkpoint holds it: without the limit of training."""
    keys = {"dataset": "local/mine", "backbone": {"name": backbone, "width": 16, "layers": 2}, **keys}
    config = from_dict(keys, "test")
    agent = make_agent(config, store, 10.0).eval()
    if isinstance(agent.condition, ReturnToGo):
        agent.condition.training_limit = None
    return TrainedAgent(agent, config, pendulum().provenance, 10, 1.0)


def write(path: Path, episodes: list[Episode], **options: Any) -> EpisodeStore:
    return EpisodeStore.write(path, episodes, environment_id=None, source={}, **options)


def acted(trained: TrainedAgent, store: EpisodeStore) -> np.ndarray:
    """The actor's actions, step by step, where every action but the newest is replaced by the recorded one."""
    actor, actions = EnvironmentActor(trained), []
    for episode in store:
        state, target = actor.initial_state(1), np.array([episode.rewards.sum()], np.float32)
        for t in range(len(episode.actions)):
            if t > 0:
                state = state._replace(previous_action=torch.from_numpy(episode.actions[t - 1 : t]))
            reward = np.array([episode.rewards[t - 1]], np.float32)
            observation = np.asarray(episode.observations[t : t + 1], np.float32)
            action, state = actor.step(observation, reward, np.array([t == 0]), target, state)
            actions.append(action[0])
    return np.stack(actions)


@pytest.mark.parametrize(
    "keys",
    [
        {"agent": {"previous_action": True}},
        {"agent": {"previous_action": True, "tokens": "interleaved"}, "objective": "flow_matching"},
        {"backbone": "transformer", "condition": "none"},
        {"backbone": "lstm", "objective": "gmm"},
        {"agent": {"delta_actions": True}, "condition": "none"},
        {"evaluation": {"inference": "window", "window": 5}, "agent": {"timestep_embedding": True}},
    ],
    ids=lambda keys: "-".join(keys),
)
def test_predictions_are_the_actors_step_by_step(
    store: EpisodeStore, pendulum: Any, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any]
) -> None:
    """In chunks of groups of episodes; acting with the limit of training, which some returns-to-go exceed."""
    monkeypatch.setattr(held_out, "CHUNK", 7)
    monkeypatch.setattr(held_out, "GROUP", 4)
    data, episodes = store.select(store.episode_returns < 90), store.select(np.arange(len(store)) < 9)
    trained = make(data, pendulum, **keys)
    predicted = predict_actions(trained, episodes, data)
    if trained.config.condition.takes_target:
        _, limit = return_to_go_limits(data, trained.config.condition.rtg_quantile)
        assert episodes.episode_returns.max() > limit.max()
        trained.agent.condition.acting_limit = torch.from_numpy(limit).float()
    np.testing.assert_allclose(predicted, acted(trained, episodes), atol=1e-5)


def test_first_actions_of_chunks_are_predicted(store: EpisodeStore, pendulum: Any) -> None:
    trained = make(store, pendulum, condition="none", objective={"name": "action_chunk", "chunk_size": 3})
    chosen = store.table[:, store.columns["timestep"].start] % 3 == 0
    predicted = predict_actions(trained, store)
    np.testing.assert_allclose(predicted[chosen], acted(trained, store)[chosen], atol=1e-5)


def test_references_and_scores_are_those_of_scipy_by_hand(store: EpisodeStore, pendulum: Any) -> None:
    last = np.arange(len(store)) >= 20
    data, episodes = store.select(~last), store.select(last)
    score = held_out_score(make(data, pendulum, condition="none"), episodes, data)
    assert list(score.errors) == ["agent", *REFERENCES]
    design = np.c_[np.ones(data.steps), data.observations.astype(float)]
    weights, *_ = np.linalg.lstsq(design, data.actions.astype(float), rcond=None)
    mean = data.actions.mean(0, dtype=float)
    before = np.concatenate([np.r_[[mean], each.actions[:-1]] for each in episodes])
    predictions = [np.c_[np.ones(episodes.steps), episodes.observations] @ weights, mean + 0 * before, before]
    recorded = episodes.actions.astype(float)
    for name, actions in zip(REFERENCES, predictions, strict=True):
        squares = (actions - recorded) ** 2
        errors = np.average(score.errors[name], axis=0, weights=score.steps)
        np.testing.assert_allclose(errors, squares.mean(0), rtol=1e-4)
        r2 = 1 - squares.sum(0) / ((recorded - recorded.mean(0)) ** 2).sum(0)
        np.testing.assert_allclose(score.entry_scores(name), r2, rtol=1e-4, atol=1e-6)
        assert score.score(name) == pytest.approx(r2.mean(), abs=1e-5)
    fit = stats.linregress(data.observations[:, 0], data.actions[:, 0])  # of one entry alone
    one = write(store.path.parent / "one", [replace(each, observations=each.observations[:, :1]) for each in data])
    alone = held_out_score(make(one, pendulum, condition="none"), one, one)
    assert alone.entry_scores("linear regression")[0] == pytest.approx(fit.rvalue**2, abs=1e-5)


@pytest.mark.usefixtures("folders")
def test_actions_outside_the_box_count_as_they_are(
    tmp_path: Path, pendulum: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recorded actions are 3, the box ends at 1: the best that the agent can do is an error of 4."""
    observations, rewards = np.random.default_rng(0).normal(size=(9, 2)), np.zeros(8)
    episode = Episode(observations, np.linspace(-1, 1, 8)[:, None], rewards, False, True)
    data = write(tmp_path / "data", [episode], spaces=(None, Box(-1, 1, (1,))))
    outside = write(tmp_path / "held-out", [replace(episode, actions=np.full((8, 1), 3.0))])
    trained = make(data, pendulum, condition="none")
    with torch.no_grad():
        trained.agent.objective.head.bias.fill_(100.0)
    score = held_out_score(trained, outside)
    assert score.errors["agent"] == ((pytest.approx(4.0),),)
    assert score.variance == (0.0,)  # a constant entry has no R2
    assert np.isnan(score.score())
    assert np.isnan(score_run(trained, outside).score())
    assert "R2 is not defined" in capsys.readouterr().err


def test_entry_that_hardly_moves_is_in_no_score(tmp_path: Path, pendulum: Any) -> None:
    """Its R2, an error over a variance of next to nothing, would decide alone."""
    generator = np.random.default_rng(0)
    actions = generator.uniform(-1, 1, (40, 3)) * [1, 1e-3, 0.1]
    episode = Episode(generator.normal(size=(41, 2)), actions, np.zeros(40), False, True)
    store = write(tmp_path / "data", [episode], spaces=(None, Box(-1, 1, (3,))))
    score = held_out_score(make(store, pendulum, condition="none"), store, store)
    assert score.variance == (pytest.approx(actions[:, 0].var()), 0.0, pytest.approx(actions[:, 2].var()))
    assert score.score() == pytest.approx(np.mean(score.entry_scores()[[0, 2]]))
    (row,) = (line.split() for line in str(score).splitlines() if line.startswith("action 1"))
    assert set(row[2:]) == {"constant"}


def made_score(errors: np.ndarray, steps: Any = None) -> HeldOutScore:
    """A score with these errors of the agent, (episodes, entries), of variance 1."""
    names: Any = {
        "agent": "mingru on local/mine",
        "step": 10,
        "dataset": "local/held-out",
        "fingerprint": "",
    }
    entries = tuple(f"joint {entry}" for entry in range(errors.shape[1]))
    lengths, rows = (10,) * len(errors) if steps is None else tuple(steps), tuple(map(tuple, errors.tolist()))
    variance = (1.0,) * len(entries)
    return HeldOutScore(
        **names, measure="R2", entries=entries, steps=lengths, variance=variance, errors={"agent": rows}
    )


def test_episode_of_flipped_sign_widens_the_interval(tmp_path: Path, pendulum: Any) -> None:
    """Actions are observations; in one held-out episode the observations have the other sign, as quaternions can."""
    generator = np.random.default_rng(0)

    def episode(sign: float) -> Episode:
        observations = generator.uniform(-1, 1, (21, 2))
        return Episode(sign * observations, observations[:-1], np.zeros(20), False, True)

    data = write(tmp_path / "data", [episode(1.0) for _ in range(5)])
    flipped = write(tmp_path / "held-out", [episode(-1.0 if number == 3 else 1.0) for number in range(6)])
    score = held_out_score(make(data, pendulum, condition="none"), flipped, data)
    assert score.episode_errors("linear regression").argmax() == 3
    low = score.estimate("linear regression").low
    assert low is not None
    assert low < 0 < score.score("linear regression")  # the interval shows that one episode decides


def test_interval_over_episodes_covers_the_true_score() -> None:
    """Errors of 12 episodes drawn anew 150 times from a skewed distribution of mean 0.3."""
    generator, covered = np.random.default_rng(0), 0
    for _ in range(150):
        estimate = made_score(0.15 * generator.gamma(2.0, size=(12, 1))).estimate()
        covered += estimate.low <= 0.7 <= estimate.high <= 1
    assert 0.88 < covered / 150 < 0.99
    assert made_score(np.ones((4, 1))).estimate().low is None


def test_standard_error_is_that_of_a_bootstrap_over_episodes_and_seeds() -> None:
    """Mean errors per step of 4,000 draws of as many episodes and seeds, where those interact little."""
    generator, steps = np.random.default_rng(1), np.tile([10, 20, 15, 30], 10)
    errors = generator.gamma(2.0, size=40) + generator.normal(0, 0.3, (12, 1)) + generator.normal(0, 0.1, (12, 40))
    draws = generator.integers(40, size=(4000, 40)), generator.integers(12, size=(4000, 12))
    means = [
        np.average(errors[rows][:, columns].mean(0), weights=steps[columns])
        for columns, rows in zip(*draws, strict=True)
    ]
    assert error_over_episodes(errors.mean(0), [errors], steps)[0] == pytest.approx(np.std(means), rel=0.06)
    assert made_score(errors[0][:, None], steps).score() == pytest.approx(1 - np.average(errors[0], weights=steps))
    apart = [errors[:1], errors[:1] + 0.5]  # which differ by as much in every episode
    assert error_over_episodes(apart[1][0] - apart[0][0], apart, steps)[0] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("space", [Discrete(3), MultiDiscrete([3, 2])], ids=["discrete", "multi"])
def test_discrete_actions_have_an_accuracy_per_choice(tmp_path: Path, pendulum: Any, space: Any) -> None:
    """The first choice follows from the observation's sign, so that a line finds it; the second is 1 mostly."""
    generator = np.random.default_rng(0)
    sizes, episodes = ([3, 2] if isinstance(space, MultiDiscrete) else [3]), []
    for _ in range(8):
        observations = generator.normal(size=(31, 1))
        choices = np.c_[2 * (observations[:-1, 0] > 0), generator.random(30) < 0.8].astype(int)[:, : len(sizes)]
        rows = np.concatenate([np.eye(size)[column] for size, column in zip(sizes, choices.T, strict=True)], axis=1)
        episodes.append(Episode(observations, rows, np.zeros(30), False, True))
    store = write(tmp_path / "data", episodes, spaces=(None, space))
    store.source["columns"] = {"actions": ["side", "grip"][: len(sizes)]}
    trained = make(store, pendulum, condition="none", objective="mse")
    score = held_out_score(trained, store, store)
    assert (score.measure, score.entries) == ("accuracy", ("side", "grip")[: len(sizes)])
    edges = np.cumsum([0, *sizes])
    recorded, predicted = store.actions, predict_actions(trained, store)
    for entry, (start, end) in enumerate(pairwise(edges)):
        chosen = recorded[:, start:end].argmax(1)
        hits = (predicted[:, start:end].argmax(1) == chosen).mean()
        assert score.entry_scores()[entry] == pytest.approx(hits)
        assert score.entry_scores("mean action")[entry] == pytest.approx(np.bincount(chosen).max() / len(chosen))
    assert score.entry_scores("linear regression")[0] > 0.9
    assert score.score() == pytest.approx(score.entry_scores().mean())


def test_goals_in_hindsight_are_what_the_episode_reaches(tmp_path: Path, pendulum: Any) -> None:
    from gymnasium.spaces import Dict

    box = Box(-np.inf, np.inf, (1,))
    space = Dict({"achieved_goal": box, "desired_goal": box, "observation": box})
    places = np.arange(31.0)[:, None]
    observations = np.c_[places, np.full((31, 1), -5.0), 0 * places]
    store = write(tmp_path / "data", [Episode(observations, np.ones((30, 1)), np.zeros(30), False, True)] * 3,
                  spaces=(space, Box(-2, 2, (1,))))  # fmt: skip
    config = from_dict({"dataset": "local/mine", "training": {"goal_relabeling": "hindsight"}}, "test")
    steps = held_out._steps(config, store)
    ahead = steps.observation[:, 1] - steps.observation[:, 0]
    assert (ahead >= 1).all()
    np.testing.assert_array_equal(-steps.return_to_go[:, 0], ahead)
    assert (store.observations[:, 1] == -5).all()


def test_other_sizes_are_refused_and_tables_name_entries(store: EpisodeStore, pendulum: Any, tmp_path: Path) -> None:
    trained = make(store, pendulum)
    narrow = write(tmp_path / "narrow", [replace(each, actions=each.actions[:, :2]) for each in store])
    with pytest.raises(InputError, match=r"actions of .*narrow"):
        held_out_score(trained, narrow)
    lines = str(made_score(np.arange(24.0).reshape(3, 8) / 10)).splitlines()
    assert [line.split()[:2] for line in lines[-8:]] == [["joint", str(entry)] for entry in range(8)]


def test_figure_has_the_median_episode_and_six_entries(store: EpisodeStore, pendulum: Any, tmp_path: Path) -> None:
    trained = make(store, pendulum)
    score = held_out_score(trained, store, store)
    plot_held_out(score, trained, store, store, tmp_path / "figures" / "held-out.png")
    assert (tmp_path / "figures" / "held-out.png").read_bytes().startswith(b"\x89PNG")


def swings(count: int) -> list[Episode]:
    """Episodes of four steps of the mountain car's shape."""
    generator = np.random.default_rng(count)
    spaces = generator.normal(size=(count, 5, 2)), generator.uniform(-1, 1, (count, 4, 1))
    return [Episode(*arrays, np.zeros(4), False, True) for arrays in zip(*spaces, strict=True)]


def test_agent_without_environment_is_evaluated_on_held_out_episodes(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, count in (("mine", 6), ("held-out", 5), ("other", 7)):
        write_store(f"local/{name}", swings(count), action_space=Box(-1, 1, (1,)))
    keys: dict[str, Any] = {"steps": 1, "training": {"context": 4}, "progress": False}
    run = train("local/mine", SMALL, output=folders / "run", validation="local/held-out", **keys)
    result = run.evaluate(progress=False)
    score = result.held_out
    assert (result.targets, str(result)) == ((), str(score))
    assert score == held_out_score(run.agent, open_dataset("local/held-out").store, open_dataset("local/mine").store)
    (file,) = (run.folder / "results").iterdir()
    assert read_result(file) == result
    capsys.readouterr()
    figure = str(folders / "figure")  # a PNG at the path as given
    assert main(["evaluate", str(run.folder), "--validation", "local/other", "--plot", figure]) == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("local/other", "7 episodes", *REFERENCES))
    assert Path(figure).is_file()
    assert len([*(run.folder / "results").iterdir()]) == 2
    options: dict[str, Any] = {"inference": "window", "window": 2}
    stores = [open_dataset(f"local/{name}").store for name in ("held-out", "mine")]
    config = replace(run.config, evaluation=replace(run.config.evaluation, **options))
    windowed = held_out_score(replace(run.agent, config=config), *stores)
    assert run.evaluate(progress=False, **options).held_out.errors == windowed.errors != score.errors
    write_store("local/mine", swings(2), overwrite=True)  # no longer what it was trained on
    assert list(run.evaluate(progress=False).held_out.errors) == ["agent"]
    unscored = train("local/mine", SMALL, output=folders / "unscored", **keys)
    with pytest.raises(InputError, match=r"local/mine.*--validation"):
        unscored.evaluate()


def test_references_are_no_reason_to_make_a_dataset(
    store: EpisodeStore,
    pendulum: Any,
    folders: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(StandinSource, "open", lambda *_: pytest.fail("a million steps are collected"))
    write_store("local/held-out", list(store), "Hopper-v5")
    score = score_run(make(store, pendulum, dataset="standin/hopper-medium"), "local/held-out")
    assert list(score.errors) == ["agent"]
    assert "no references: standin/hopper-medium" in capsys.readouterr().err


def test_columns_in_another_order_are_refused(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(0)
    log = {name: generator.normal(size=40) for name in ("angle", "rate", "left", "right")} | {"run": np.arange(40) // 8}
    orders = {"mine": ("angle,rate", "left,right"), "rates": ("rate,angle", "left,right")}
    for name, columns in (orders | {"sides": ("angle,rate", "right,left")}).items():
        import_log(log, f"local/{name}", *columns, episode="run", progress=False)
    keys: dict[str, Any] = {"steps": 1, "training": {"context": 4}, "progress": False}
    run = train("local/mine", SMALL, output=folders / "run", **keys)
    run.evaluate(validation="local/mine", progress=False)
    for name, words in (("rates", "observations of local/rates.*angle, rate"), ("sides", "actions of .*left, right")):
        with pytest.raises(InputError, match=words):
            run.evaluate(validation=f"local/{name}", progress=False)
        with pytest.raises(InputError, match=words):
            train("local/mine", SMALL, output=folders / "other", validation=f"local/{name}", **keys)
        with pytest.raises(InputError, match=words):
            train(f"local/{name}", SMALL, output=folders / "other", init_from=run.folder, **keys)
        assert main(["data", "info", "local/mine", "--validation", f"local/{name}"]) == 2
        assert "expected, in this order" in capsys.readouterr().err


def test_held_out_score_stands_beside_the_returns(run: Run, tmp_path: Path) -> None:
    options: dict[str, Any] = {"episodes": 1, "output": tmp_path, "progress": False}
    result = run.evaluate([60.0], validation="local/swing", **options)
    assert len(result.targets) == 1
    assert result.held_out == held_out_score(run.agent, *[open_dataset("local/swing").store] * 2)
    (file,) = (tmp_path / "results").iterdir()
    assert read_result(file).held_out == result.held_out
    assert str(result).endswith(str(result.held_out))
    with pytest.raises(InputError, match="--validation"):
        run.evaluate([60.0], plot=tmp_path / "figure.png", **options)
