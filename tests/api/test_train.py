"""`train` and `Run` from Python: forms of data, callbacks, progress output, Ctrl-C, errors."""

import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer
from swing import CAR, SMALL, push

import decision_rnn
from decision_rnn import InputError, Run, last_checkpoint, open_dataset, train
from decision_rnn.agent.conditions.limits import return_to_go_limits
from decision_rnn.backbones.mingru import MinGRUConfig
from decision_rnn.cli.main import main
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.playing import play_episodes
from decision_rnn.training.trainer import Trainer

SOURCE = {"dataset": "local", "store": "local", "minari": "minari", "minari-name": "minari"}
QUICK: dict[str, Any] = {"backbone": SMALL, "steps": 2, "progress": False}


def weights(run: Run) -> bytes:
    return (last_checkpoint(run.folder) / "weights.safetensors").read_bytes()


def test_run_metrics_are_arrays_of_the_logged_values(run: Run) -> None:
    assert run.metrics["step"].tolist() == [10, 20]
    assert {"loss", "gradient_norm", "learning_rate", "seconds", "steps_per_second"} < run.metrics.keys()
    assert all(values.shape == (2,) and np.isfinite(values).all() for values in run.metrics.values())


def test_repr_and_config_of_a_run_do_not_load_its_weights(
    run: Run, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decision_rnn.training.checkpoint.load_agent", lambda *arguments: pytest.fail("loads weights"))
    assert repr(Run(run.folder)) == f"Run({str(run.folder)!r}, mingru on local/swing, step 20)"
    assert Run(run.folder).config.training.steps == 20
    assert repr(Run("nowhere")) == "Run('nowhere')"


def test_callback_gets_step_metrics_and_agent_and_leaves_the_weights_unchanged(run: Run, inside: Path) -> None:
    seen = []

    def watch(step: int, metrics: dict[str, float], agent: decision_rnn.TrainedAgent) -> None:
        seen.append((step, metrics["loss"], agent.step, agent.agent.training))
        decision_rnn.evaluate(agent, 0.0, episodes=1, processes=1, progress=False)
        np.random.normal()

    options = {"output": "watched", "training": {"log_every": 10}, "callback": watch}
    watched = train("local/swing", **{**QUICK, "steps": 20}, **options)
    assert seen == [
        (step, loss, step, False) for step, loss in zip(*(run.metrics[k] for k in ("step", "loss")), strict=True)
    ]
    assert weights(watched) == weights(run)
    with pytest.raises(ZeroDivisionError):
        train("local/swing", **QUICK, output="failed", callback=lambda *now: 1 / 0)


@pytest.mark.parametrize("no", [False, np.False_])
def test_callback_returning_false_stops_training_and_resume_gives_identical_weights(
    run: Run, inside: Path, no: bool
) -> None:
    options = {"output": "stopped", "training": {"log_every": 10}}
    stopped = train("local/swing", **{**QUICK, "steps": 20}, **options, callback=lambda *now: no)
    assert (stopped.agent.step, stopped.metrics["step"].tolist()) == (10, [10])
    again = train("local/swing", **{**QUICK, "steps": 20}, **options, resume=True, callback=lambda *now: None)
    assert again.agent.step == 20
    assert weights(again) == weights(run)


def test_train_and_evaluate_with_progress_false_print_nothing(inside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = train("local/swing", **QUICK, output="silent", evaluation={"target_returns": [1e6]})
    run.evaluate(episodes=1, progress=False)
    assert capfd.readouterr() == ("", "")
    train("local/swing", **{**QUICK, "progress": True}, output="told", evaluation={"target_returns": [1e6]})
    told = capfd.readouterr()
    assert "training steps" in told.out
    assert "warning: a score at 1e+06 would be based on little" in told.err


def test_train_accepts_every_form_of_episode_data(folder: Path, inside: Path) -> None:
    """The same episodes give the same weights in every form."""
    dataset = open_dataset("local/swing")
    episodes = list(play_episodes(CAR, push, 4))
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
    options = {
        "observation_space": gymnasium.make(CAR).observation_space,
        "action_space": gymnasium.make(CAR).action_space,
    }
    if "car/swing-v0" not in minari.list_local_datasets():
        minari.create_dataset_from_buffers("car/swing-v0", buffers, env=CAR, **options)
    loaded = minari.load_dataset("car/swing-v0")
    elsewhere = EpisodeStore.write(inside / "store", episodes, environment_id=CAR, source={})
    expected = weights(train("local/swing", **QUICK, output="name"))
    forms: dict[str, Any] = {
        "dataset": dataset,
        "store": dataset.store,
        "other-store": elsewhere,
        "minari": loaded,
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
    some = loaded.filter_episodes(lambda episode: episode.id in (0, 2))
    run = train(some, **QUICK, output="some")
    assert open_dataset(run.config.dataset).store.num_episodes == 2
    assert train(episodes, **QUICK, output="list", environment_id=CAR, resume=True).agent.step == 2


def test_train_refuses_to_evaluate_parts_of_data_from_an_altered_environment(inside: Path) -> None:
    """A part of a Minari dataset, or the store of its complete episodes, is from the environment of the whole."""
    environment = gymnasium.make(CAR, goal_velocity=0.01)
    decision_rnn.record(push, environment, "local/fast-goal", episodes=3, progress=False)
    store = open_dataset("local/fast-goal").store
    if "car/fast-goal-v0" not in minari.list_local_datasets():
        assert main(["data", "export", "local/fast-goal", "--format", "minari", "--output", "car/fast-goal-v0"]) == 0
    some = minari.load_dataset("car/fast-goal-v0").filter_episodes(lambda episode: episode.id < 2)
    part = store.select(np.arange(store.num_episodes) < 2)
    names = set()
    for data in (some, part):
        with pytest.raises(InputError, match=f"collected in {CAR} with kwargs {{'goal_velocity': 0.01}}"):
            train(data, **QUICK, output="refused")
        names.add(train(data, **QUICK | {"evaluation": {"episodes": 0}}, output=f"part-{len(names)}").config.dataset)
    usual = train(list(part), **QUICK, output="usual", environment_id=CAR)
    assert len(names) == 1
    assert usual.config.dataset not in names


@pytest.mark.parametrize(
    ("arguments", "options", "told"),
    [
        (("local/swin",), {}, "there is no dataset local/swin"),
        (([],), {}, "environment_id"),
        ((3,), {}, "int is not a dataset"),
        (("local/swing", {"name": "mingru", "widht": 3}), {}, "backbone.widht"),
        (("local/swing",), {"steps": "many"}, "training.steps"),
        (("local/swing",), {"seed": -1}, "seed"),
        (("local/swing",), {"batch_size": 3}, "batch_size"),
        (("local/swing",), {"training": {"batch_sice": 3}}, "training.batch_sice"),
        (("local/swing",), {"training": 3}, "training"),
        (("local/swing",), {"dataset": "hopper-medium"}, "dataset"),
        (("local/swing",), {"environment_id": "Nonsense-v9"}, "Nonsense-v9"),
        (([],), {"environment_id": CAR, "path": "a.hdf5"}, "a.hdf5"),
        (("local/swing",), {"steps": 3, "training": {"steps": 3}}, "steps"),
        (("local/swing",), {"plugins": ["no_such_module"]}, "no_such_module"),
        (("local/swing",), {"plugins": "layers"}, "layers"),
        (("local/swing",), {"output": 3}, "output is 3"),
        (("local/swing",), {"path": 3}, "path"),
        (("local/swing",), {"output": "/dev/null/run"}, "/dev/null/run"),
        (("local/swing",), {"resume": True, "output": "nothing"}, "nothing is not a run folder"),
        (("local/swing",), {"evaluation": {"episodes": -1}}, "evaluation.episodes"),
    ],
)
def test_train_invalid_arguments_raise_input_error(arguments: Any, options: Any, told: str, inside: Path) -> None:
    with pytest.raises(InputError) as caught:
        train(*arguments, progress=False, **options)
    assert told in str(caught.value)
    assert not (inside / "runs").exists()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda run: decision_rnn.evaluate("nowhere"), "nowhere"),
        (lambda run: decision_rnn.load_agent("no where"), "no where"),
        (lambda run: run.evaluate("many"), "target_returns"),
        (lambda run: run.evaluate([-float("inf")]), "target_returns"),
        (lambda run: run.evaluate(3, episodes=0), "episodes"),
        (lambda run: run.evaluate(3, episodes="all"), "episodes"),
        (lambda run: run.evaluate(3, inference="windows"), "inference"),
        (lambda run: run.evaluate(3, processes=0), "processes"),
        (lambda run: run.evaluate(3, window=5), "window is 5"),
        (lambda run: decision_rnn.compare("local/swing", dataset="hopper-medium"), "hopper-medium"),
        (lambda run: Run("nowhere").metrics, "nowhere"),
        (lambda run: decision_rnn.compare([]), "no dataset"),
        (lambda run: open_dataset("local/swing", partial="Keep"), "partial is 'Keep'"),
        (lambda run: decision_rnn.compare("local/swing", ["mingur"]), "mingru"),
        (lambda run: decision_rnn.compare("local/swing", seeds=0), "seeds"),
        (lambda run: decision_rnn.compare("local/swing", seeds="three"), "seeds"),
        (lambda run: decision_rnn.compare("local/swing", output=3), "output is 3"),
        (lambda run: run.evaluate(3, output=3), "output is 3"),
        (lambda run: Run(run.folder, plugins="layers").agent, "layers"),
        (lambda run: decision_rnn.compare("local/swing", executor="slurm"), "slurm"),
    ],
)
def test_evaluate_compare_and_run_invalid_arguments_raise_input_error(
    call: Any, told: str, run: Run, inside: Path
) -> None:
    with pytest.raises(InputError) as caught:
        call(run)
    assert told in str(caught.value)
    assert not list(inside.iterdir())


def test_evaluate_imports_the_plugins_of_an_agent_in_memory(
    run: Run, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a run was unpickled, or its module was removed to be imported again."""
    (inside / "plugin_of_a_run.py").write_text("")
    monkeypatch.syspath_prepend(inside)
    trained = train("local/swing", **QUICK, output="plugged", plugins=["plugin_of_a_run"])
    options: dict[str, Any] = {"episodes": 1, "processes": 1, "progress": False}
    del sys.modules["plugin_of_a_run"]
    with pytest.raises(InputError, match="plugin_of_a_run"):
        decision_rnn.evaluate(trained, 60.0, **options)
    assert decision_rnn.evaluate(trained, 60.0, **options, plugins=["plugin_of_a_run"]).step == 2
    assert "plugin_of_a_run" in sys.modules


def test_evaluate_checks_that_output_is_writable_before_playing(
    run: Run, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inside / "file").touch()
    monkeypatch.setattr("decision_rnn.evaluation.evaluate.rollout", lambda *task: pytest.fail("it is played"))
    for output in ("file", "file/of/a/folder"):
        with pytest.raises(InputError, match=f"{output}: Not a directory"):
            run.evaluate(60.0, output=output, progress=False)


def test_compare_recorded_command_reproduces_the_same_plan(
    run: Run, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for values that are 0, False or empty, and for NumPy and pathlib types."""
    (inside / "compared_plugin.py").write_text("")
    plans: list[tuple[Any, str]] = []
    monkeypatch.setattr("decision_rnn.comparison.compare.run_plan", lambda plan, command: plans.append((plan, command)))
    decision_rnn.compare(
        open_dataset("local/swing"),
        [],
        variants={"a": {"backbone": MinGRUConfig(width=16)}, "b": {"backbone": SMALL, "training": {"context": 9}}},
        controls=(),
        seeds=2,
        steps=10,
        output=inside / "compared",
        checkpoint_episodes=0,
        jobs=3,
        progress=False,
        plugins=("compared_plugin",),
        seed=5,
        partial="drop",
        agent={"previous_action": True},
        condition={"rtg_quantile": 0.0},
        evaluation={"target_returns": [np.float64(60.0)], "seed": np.int64(0)},
    )
    decision_rnn.compare("local/swing", backbones="lru,mingru", controls="none")
    decision_rnn.compare(["local/swing"])
    for plan, command in list(plans):
        eval(command, {"decision_rnn": decision_rnn})
        assert plans.pop()[0] == plan


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_train_finishes_its_step_writes_a_checkpoint_and_resumes_to_the_same_weights(
    run: Run, inside: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, handler = Trainer.step, signal.getsignal(number)

    def interrupted_in_its_seventh(trainer: Trainer, batch: Any) -> Any:
        if trainer.steps == 6:
            signal.raise_signal(number)
        return step(trainer, batch)

    options = {**QUICK, "steps": 20, "output": "interrupted", "training": {"log_every": 10}}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as caught:
        patch.setattr(Trainer, "step", interrupted_in_its_seventh)
        train("local/swing", **options)
    assert "at step 7" in str(caught.value)
    assert "decision-rnn train --output interrupted --resume" in str(caught.value)
    assert signal.getsignal(number) == handler
    again = train("local/swing", **options, resume=True)
    assert again.metrics["step"].tolist() == [10, 20]
    assert weights(again) == weights(run)


def test_callback_is_interrupted_at_once_and_a_second_interruption_ends_the_step(
    run: Run, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(step: int, metrics: dict[str, float], agent: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        pytest.fail("goes on")

    options = {**QUICK, "steps": 20, "training": {"log_every": 5}}
    with pytest.raises(KeyboardInterrupt, match="interrupted at step 5;"):
        train("local/swing", **options, output="callback", callback=interrupt)
    assert weights(train("local/swing", **options, output="callback", resume=True)) == weights(run)

    def twice(trainer: Trainer, batch: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "step", twice)
    with pytest.raises(KeyboardInterrupt):
        train("local/swing", **options, output="twice")


def test_command_resumes_from_the_folder_alone_and_says_at_which_step(
    run: Run, inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {**QUICK, "steps": 20, "evaluation": {"episodes": 0}}
    train("local/swing", **options, training={"log_every": 10}, output="stopped", callback=lambda *now: False)
    assert main(["train", "--output", "stopped", "--resume"]) == 0
    assert "resuming stopped at step 10\n" in capsys.readouterr().out
    assert weights(Run("stopped")) == weights(run)
    assert main(["train", "--output", "stopped", "--resume"]) == 0
    assert "resuming stopped at step 20, its last: nothing is left to train\n" in capsys.readouterr().out
    assert main(["train", "--output", "stopped", "--resume", "--seed", "3"]) == 2
    assert "stopped was started with seed 0, not 3" in capsys.readouterr().err
    assert main(["train", "--output", "nowhere", "--resume"]) == 2
    assert "nowhere is not a run folder" in capsys.readouterr().err


def test_train_in_python_resumes_from_the_folder_alone(run: Run, inside: Path) -> None:
    stopping = {"output": "stopped", "callback": lambda *now: False}
    options = {**QUICK, "steps": 20, "seed": 3, "training": {"log_every": 5}}
    train("local/swing", **options, **stopping)
    once = train(resume=True, **stopping)
    assert (once.agent.step, once.config.seed, once.config.dataset) == (10, 3, "local/swing")
    with pytest.raises(InputError, match="stopped was started with seed 3, not 0"):
        train(resume=True, output="stopped", seed=0)
    whole = train("local/swing", **options, output="whole")
    assert weights(train(resume=True, output=Path("stopped"))) == weights(whole)
    with pytest.raises(InputError, match="give a dataset"):
        train(output="other")


def test_train_from_an_agents_weights_keeps_its_statistics_and_takes_the_cap_from_the_new_data(
    run: Run, inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = decision_rnn.record(lambda seen: 0.5 * push(seen), CAR, "local/half", episodes=2, seed=9, progress=False)
    still = {"learning_rate": 0.0, "steps": 3}
    again = train(other, init_from=run, output="again", training=still, evaluation={"episodes": 0})
    assert f"starts from {run.folder}, step 20: its weights, its normalisation" in capsys.readouterr().out
    assert again.config.backbone == run.config.backbone
    before, after = run.agent.agent.state_dict(), again.agent.agent.state_dict()
    cap = after.pop("condition.acting_limit"), before.pop("condition.acting_limit")
    assert cap[0].tolist() != cap[1].tolist()
    assert cap[0].tolist() == return_to_go_limits(other.store, 0.8)[0].astype(np.float32).tolist()
    assert {name: value.tolist() for name, value in after.items()} == {n: v.tolist() for n, v in before.items()}
    assert after["encoder.mean"].tolist() != other.store.observation_mean.tolist()
    assert again.agent.provenance.fingerprint == other.store.fingerprint

    words = ["train", "local/half", "--init_from", str(run.folder), "--evaluation.episodes", "0", "--output", "words"]
    assert main([*words, "--training.steps", "3", "--training.learning_rate", "0"]) == 0
    assert weights(Run("words")) == weights(again)
    assert main(["train", "--output", "words", "--resume"]) == 0


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"backbone": "lru"}, "backbone is 'lru', but init_from {0} has mingru"),
        ({"backbone": {"width": 32}}, "the weights of init_from {0} have other shapes than this run's"),
        ({"init_from": "runs/none"}, "runs/none"),
        ({"init_from": 3}, "init_from"),
        ({"init_from": "pretrained/hopper-medium"}, "sees 11 entries of an observation and has 3 actions, but local/"),
    ],
)
def test_train_from_weights_that_do_not_fit_is_one_sentence(
    run: Run, inside: Path, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message.format(run.folder))):
        train("local/swing", output="fit", **{"init_from": run, "evaluation": {"episodes": 0}, **keys})


def test_train_and_evaluate_run_in_a_thread(run: Run, inside: Path) -> None:
    """As in a notebook widget or a service, where no signal handler can be set."""
    with ThreadPoolExecutor(1) as pool:
        trained = pool.submit(train, "local/swing", **QUICK, output="thread").result()
    assert trained.evaluate(3.0, episodes=1, processes=1, progress=False).step == 2
