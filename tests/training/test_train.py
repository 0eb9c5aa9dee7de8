"""`train` and `Run` from Python: forms of data, callbacks, resuming, interruptions, weights of another run, errors."""

import re
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
import pytest
import torch
from minari.data_collector import EpisodeBuffer
from small_comparison import pendulum_episodes
from swing import CAR, SMALL, push

import decision_rnn
from decision_rnn import InputError, Run, last_checkpoint, open_dataset, train, write_store
from decision_rnn.cli.main import main
from decision_rnn.data.limits import return_to_go_limits
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.playing import play_episodes
from decision_rnn.runs.folder import checkpoints_of, read_config
from decision_rnn.training.trainer import Trainer

SOURCE = {"dataset": "local", "store": "local", "minari-name": "minari"}
QUICK: dict[str, Any] = {"backbone": SMALL, "steps": 2, "progress": False}
TWENTY: dict[str, Any] = {**QUICK, "steps": 20, "training": {"log_every": 10}}
"""The options of the fixture `run`."""


def weights(run: Run) -> bytes:
    return (last_checkpoint(run.folder) / "weights.safetensors").read_bytes()


def test_run_stopped_by_a_callback_resumes_from_its_folder(
    run: Run, inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {**TWENTY, "evaluation": {"episodes": 0}}
    stopped = train("local/swing", **options, output="stopped", callback=lambda *now: np.False_)
    assert (stopped.agent.step, stopped.metrics["step"].tolist()) == (10, [10])
    resume = ["train", "--output", "stopped", "--resume"]
    for step in (10, 20):
        assert main(resume) == 0
        assert f"resuming stopped at step {step}" in capsys.readouterr().out
        assert weights(Run("stopped")) == weights(run)
    resumed = train(resume=True, output=Path("stopped"), progress=False)
    assert (resumed.agent.step, resumed.config.dataset) == (20, "local/swing")
    assert main([*resume, "--seed", "3"]) == 2
    assert "seed 0, not 3" in capsys.readouterr().err
    assert main(["train", "--output", "nowhere", "--resume"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_progress_false_prints_nothing(run: Run, inside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    targets = {"target_returns": [1e6]}  # which no episode reaches
    train("local/swing", **QUICK, output="silent", evaluation=targets).evaluate(episodes=1, progress=False)
    assert capfd.readouterr() == ("", "")
    train("local/swing", **{**QUICK, "progress": True}, output="told", evaluation=targets)
    printed = capfd.readouterr()
    assert "training steps" in printed.out
    assert "1e+06" in printed.out


def test_train_accepts_every_form_of_episode_data(inside: Path) -> None:
    """The same episodes give the same weights in every form."""
    dataset = open_dataset("local/swing")
    episodes, environment = list(play_episodes(CAR, push, 4)), gymnasium.make(CAR)
    buffers = [
        EpisodeBuffer(
            observations=episode.observations,
            actions=episode.actions,
            rewards=episode.rewards,
            terminations=np.arange(len(episode.rewards)) == len(episode.rewards) - 1,
            truncations=np.zeros(len(episode.rewards), bool),
        )
        for episode in episodes
    ]
    spaces = {"observation_space": environment.observation_space, "action_space": environment.action_space}
    minari.create_dataset_from_buffers("car/swing-v0", buffers, env=CAR, **spaces)
    loaded = minari.load_dataset("car/swing-v0")
    expected = weights(train("local/swing", **QUICK, output="name"))
    forms: dict[str, Any] = {
        "dataset": dataset,
        "store": dataset.store,
        "other-store": EpisodeStore.write(inside / "store", episodes, environment_id=CAR, source={}),
        "minari-name": "minari/car/swing-v0",
        "minari-episodes": list(loaded.iterate_episodes()),
        "list": episodes,
        "generator": iter(episodes),
    }
    for form, data in forms.items():
        environment_id = CAR if form in ("minari-episodes", "list", "generator") else None
        run = train(data, **QUICK, output=form, environment_id=environment_id)
        assert weights(run) == expected, form
        assert run.config.dataset.partition("/")[0] == SOURCE.get(form, "episodes")
    for part in (loaded, loaded.filter_episodes(lambda episode: episode.id in (0, 2))):
        with pytest.raises(InputError, match=r"'minari/car/swing-v0'.*iterate_episodes"):
            train(part, **QUICK, output="some")
    assert train(episodes, **QUICK, output="list", environment_id=CAR, resume=True).agent.step == 2


def test_dataset_with_a_path_resumes(inside: Path) -> None:
    dataset = replace(open_dataset("local/swing"), path=inside / "swing")
    for resume in (False, True):
        assert train(dataset, **QUICK, output="run", resume=resume).agent.step == 2


def test_arguments_replace_keys_of_a_run_config(run: Run, inside: Path) -> None:
    options: dict[str, Any] = {"steps": 3, "seed": 1, "init_from": run, "progress": False, "training": {"log_every": 1}}
    trained = train(run.config, {"layers": 1}, output="other", **options)
    assert (trained.agent.step, trained.config.seed, trained.config.init_from) == (3, 1, str(run.folder))
    assert trained.metrics["step"].tolist() == [1, 2, 3]
    with pytest.raises(InputError, match=r"backbone\.widht"):
        train(run.config, {"name": "mingru", "widht": 3})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_training_resumes_to_the_same_weights(
    run: Run, inside: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, handler = Trainer.step, signal.getsignal(number)

    def interrupted_in_its_seventh(trainer: Trainer, batch: Any) -> Any:
        if trainer.steps == 6:
            signal.raise_signal(number)
        return step(trainer, batch)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt, match="at step 7") as caught:
        patch.setattr(Trainer, "step", interrupted_in_its_seventh)
        train("local/swing", **TWENTY, output="interrupted")
    assert "decision-rnn train --output interrupted --resume" in str(caught.value)
    assert signal.getsignal(number) == handler
    resumed = train("local/swing", **TWENTY, output="interrupted", resume=True)
    assert resumed.metrics["step"].tolist() == [10, 20]
    assert weights(resumed) == weights(run)


def test_callback_or_second_interruption_stops_at_once(run: Run, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(step: int, metrics: dict[str, float], agent: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        pytest.fail("goes on")

    with pytest.raises(KeyboardInterrupt, match="at step 10"):
        train("local/swing", **TWENTY, output="callback", callback=interrupt)
    assert weights(train("local/swing", **TWENTY, output="callback", resume=True)) == weights(run)

    def interrupted_twice(trainer: Trainer, batch: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "step", interrupted_twice)
    with pytest.raises(KeyboardInterrupt):
        train("local/swing", **TWENTY, output="twice")


def test_train_and_evaluate_run_in_a_thread(run: Run, inside: Path) -> None:
    """As in a notebook widget or a service, where no signal handler can be set."""
    with ThreadPoolExecutor(1) as pool:
        trained = pool.submit(train, "local/swing", **QUICK, output="thread").result()
    assert trained.evaluate(3.0, episodes=1, processes=1, progress=False).step == 2


def test_train_from_weights_takes_only_the_cap_from_the_data(run: Run, inside: Path) -> None:
    other = decision_rnn.record(lambda seen: 0.5 * push(seen), CAR, "local/half", episodes=2, seed=9, progress=False)
    options = {"training": {"learning_rate": 0.0, "steps": 3}, "evaluation": {"episodes": 0}}
    tuned = train(other, init_from=run, output="tuned", **options)
    assert tuned.config.backbone == run.config.backbone
    before, after = run.agent.agent.state_dict(), tuned.agent.agent.state_dict()
    cap, earlier = (state.pop("condition.acting_limit").tolist() for state in (after, before))
    assert cap != earlier
    assert cap == return_to_go_limits(other.store, 0.8)[0].astype(np.float32).tolist()
    assert {name: value.tolist() for name, value in after.items()} == {n: v.tolist() for n, v in before.items()}
    assert after["encoder.mean"].tolist() != other.store.observation_mean.tolist()
    assert tuned.agent.provenance.fingerprint == other.store.fingerprint

    words = ["train", "local/half", "--init_from", str(run.folder), "--evaluation.episodes", "0", "--output", "words"]
    assert main([*words, "--training.steps", "3", "--training.learning_rate", "0"]) == 0
    assert weights(Run("words")) == weights(tuned)
    assert main(["train", "--output", "words", "--resume"]) == 0


@pytest.mark.parametrize(("scale", "warned"), [(1.0, False), (3.0, True)])
def test_train_from_weights_warns_of_actions_outside_its_box(
    inside: Path, capsys: pytest.CaptureFixture[str], scale: float, warned: bool
) -> None:
    generator, options = np.random.default_rng(0), {"steps": 2, "training": {"loggers": []}}
    log = [{"observations": generator.normal(size=(31, 2)), "actions": generator.uniform(-1, 1, (30, 1))}] * 2
    run = train(log, {"name": "mlp", "width": 8, "layers": 1}, output="first", **options)
    capsys.readouterr()
    other = [{**episode, "actions": scale * episode["actions"]} for episode in log]
    train(other, init_from=run, output="second", **options)
    assert ("outside" in capsys.readouterr().err) == warned


def test_file_is_read_with_what_the_command_line_overrides(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = "backbone: {match_parameters: 1, layers: 1}\ntraining: {steps: 2}\nevaluation: {episodes: 0}\n"
    Path("run.yaml").write_text(f"dataset: local/swing\n{keys}")
    words = ["train", "--config", "run.yaml", "--output", "overridden"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "run.yaml" in error
    assert "backbone.match_parameters" in error
    assert main([*words, "--backbone.width", "16"]) == 0
    Path("run.yaml").write_text("dataset: local/swing\nsteps: 2\n")  # no key of a run, but an argument of train
    assert main(words) == 2
    assert "'steps'" in capsys.readouterr().err
    assert Run("overridden").config.backbone.width == 16


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"data": "local/swin"}, "local/swing"),
        ({"data": []}, "episodes"),
        ({"data": None}, "dataset"),
        ({"backbone": {"name": "mingru", "widht": 3}}, "backbone.widht"),
        ({"batch_size": 3}, "batch_size"),
        ({"training": {"steps": "many"}}, "training.steps"),
        ({"environment_id": "Nonsense-v9"}, "Nonsense-v9"),
        ({"plugins": ["no_such_module"]}, "no_such_module"),
        ({"plugins": "no_such_module"}, "no_such_module"),
        ({"output": "/dev/null/run"}, "/dev/null/run"),
        ({"resume": True, "output": "nothing"}, "nothing"),
        ({"init_from": "nothing"}, "nothing"),
        ({"init_from": "{run}", "backbone": "lru"}, "backbone"),
        ({"init_from": "{run}", "backbone": {"width": 32}}, "shapes"),
        ({"init_from": "pretrained/hopper-medium"}, "observation"),
    ],
)
def test_invalid_arguments_are_named(options: dict[str, Any], name: str, run: Run, inside: Path) -> None:
    options = {"data": "local/swing", "progress": False, **options}
    if options.get("init_from") == "{run}":
        options["init_from"] = run
    with pytest.raises(InputError, match=name):
        train(options.pop("data"), **options)
    assert not (inside / "runs").exists()


def test_arguments_of_other_types_and_a_run_without_metrics(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device = {"device": torch.device("cpu")}
    unplayed: dict[str, Any] = {"backbone": SMALL, "steps": 2, "evaluation": {"episodes": 0}}
    run = train("local/swing", output="typed", training=device, plugins="small_cli", **unplayed)
    assert (run.config.training.device, run.config.plugins) == ("cpu", ("small_cli",))
    assert train("local/swing", output="none", training=None, **unplayed).agent.step == 2
    Path("typed/metrics.jsonl").unlink()
    capsys.readouterr()
    assert train(resume=True, output="typed").agent.step == 2
    assert "step 2 of 2" in capsys.readouterr().out


def test_overwriting_goes_on_after_it_was_killed(run: Run, inside: Path) -> None:
    """Of a run that was being removed, the configuration is left."""
    Path("half").mkdir()
    shutil.copy(run.folder / "config.yaml", "half")
    assert train("local/swing", **QUICK, output="half", overwrite=True).agent.step == 2
    Path("other").mkdir()
    Path("other/config.yaml").write_text("dataset: mine\n")
    with pytest.raises(InputError, match="is not a run's"):
        train("local/swing", **QUICK, output="other", overwrite=True)


def test_checkpoints_by_time_change_nothing_else(run: Run, inside: Path) -> None:
    saved: list[list[str]] = []

    def look(step: int, metrics: dict[str, float], agent: Any) -> bool:
        saved.append([folder.name for folder in checkpoints_of(Path("timed"))])
        return step < 15

    training = {"log_every": 5, "checkpoint_every": 10, "checkpoint_minutes": 1e-9}
    options = {**QUICK, "steps": 20, "evaluation": {"checkpoint_episodes": 1}}
    train("local/swing", **options, training=training, output="timed", callback=look)
    assert saved == [["3", "4"], ["8", "9"], ["13", "14"]]
    shutil.rmtree("timed/checkpoints/15")  # as if it had been killed after the checkpoint before
    resumed = train(
        "local/swing", **options, training={**training, "checkpoint_minutes": 0}, output="timed", resume=True
    )
    assert [folder.name for folder in checkpoints_of(Path("timed"))] == ["14", "20"]
    assert weights(resumed) == weights(run)
    evaluated = [path.name for path in Path("timed/results").iterdir()]
    assert sorted(int(re.search(r"step-(\d+)", name)[1]) for name in evaluated) == [10, 15, 20]  # type: ignore[index]


def test_run_goes_on_from_another_folder(
    run: Run, inside: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was interrupted before its first checkpoint, and names the agent that it starts from by a relative path."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    shutil.copytree(run.folder, "first")
    options: dict[str, Any] = {**QUICK, "init_from": "first", "evaluation": {"episodes": 1}}
    undisturbed = train("local/swing", **options, output="undisturbed")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "step", interrupt)
        train("local/swing", **options, output="broken")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    resumed = train(resume=True, output=inside / "broken", progress=False)
    assert weights(resumed) == weights(undisturbed)
    undisturbed.evaluate(progress=False)
    assert main(["evaluate", str(inside / "broken")]) == 0
    assert list(inside.glob("undisturbed/results/*.json"))
    assert list(inside.glob("broken/results/*.json"))
    assert not list(elsewhere.iterdir())


def test_log_without_rewards_is_cloned_unless_a_condition_is_set(
    inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    episodes = pendulum_episodes(0)
    write_store("local/rewarded", episodes)
    write_store("local/plain", [replace(episode, rewards=np.zeros(8)) for episode in episodes])
    options: dict[str, Any] = {"backbone": SMALL, "steps": 2, "training": {"context": 4}}
    chosen: list[dict[str, Any]] = [{"condition": "return_to_go"}, {"condition": {"rtg_quantile": 0.5}}]
    for name, data, own in [
        *(
            ("plain", "local/plain", {}),
            ("bc", "local/plain", {"condition": "none"}),
            ("rewarded", "local/rewarded", {}),
        ),
        *((f"chosen-{number}", "local/plain", keys) for number, keys in enumerate(chosen)),
    ]:
        run = train(data, **options, **own, output=name)
        printed = capsys.readouterr()
        cloned = name in ("plain", "bc")
        assert read_config(run.folder).condition.name == ("none" if cloned else "return_to_go"), name
        assert run.agent.config.condition.takes_target != cloned
        assert ("condition none" in printed.out) == (name == "plain")
    assert weights(Run("plain")) == weights(Run("bc"))
    assert train("local/plain", **options, output="plain", resume=True).config.condition.name == "none"
    same = [replace(episode, rewards=np.zeros_like(episode.rewards)) for episode in play_episodes(CAR, push, 2)]
    played = train(same, **QUICK, environment_id=CAR, output="played")
    assert played.config.condition.name == "return_to_go"
