"""scripts/standins.py: the tables of results/standins, from stores and a possibly unfinished comparison."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import standin_observations
import standins
from made_comparison import made_comparison
from standin_observations import REAL, Observations, compared, differences, entries_of

from decision_rnn import Episode, EpisodeStore
from decision_rnn.cli.compare import plan_of
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.spec import TASKS

HOPPER = "standin/hopper-medium"
SHORT = (HOPPER, "standin/hopper-medium-replay")


def test_observation_means_are_compared_in_real_standard_deviations() -> None:
    """Every mean half a real standard deviation above, one position 2.6 below and one velocity 0.75 above."""
    real = REAL[HOPPER]
    off = np.full(11, 0.5)
    off[3], off[10] = -2.6, 0.75
    ours = Observations((np.array(real.mean) + off * real.sd).tolist(), (2 * np.array(real.sd)).tolist())
    np.testing.assert_allclose(differences(HOPPER, ours), off)
    text = compared(HOPPER, ours)
    assert "2.6 over the positions (leg, angle) and 0.8 over the velocities (foot, angular velocity)" in text
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[4:]]
    assert [row[0] for row in rows] == entries_of("hopper")
    assert rows[0] == ["height", "1.311 ± 0.178", "1.400 ± 0.356", "+0.50", "2.00"]
    assert [float(row[3]) for row in rows] == off.tolist()


@pytest.mark.parametrize("name", REAL)
def test_real_observation_statistics_have_an_entry_for_each_number(name: str) -> None:
    short = name.removeprefix("standin/").partition("-")[0]
    task = TASKS[short]
    assert len(REAL[name].mean) == len(REAL[name].sd) == len(entries_of(short)) == task.observation_dim
    assert min(REAL[name].sd) > 0
    assert [entry for entry in entries_of(short) if "angle" in entry or entry == "height"] == entries_of(short)[
        : task.positions
    ]


def test_standins_config_has_every_dataset_and_method_with_published_scores() -> None:
    plan, _ = plan_of(["--config", str(standins.ROOT / "configs" / "comparisons" / "standins.yaml")])
    assert set(plan.datasets) == set(standins.PUBLISHED)
    assert tuple(variant.label for variant in plan.variants) == standins.METHODS
    cloning, transformer = (variant.config for variant in plan.variants)
    assert (cloning.takes_target, cloning.backbone.name) == (False, "mingru")
    assert transformer.training.steps == cloning.training.steps


def test_standins_scores_are_of_finished_runs_on_the_same_data_fingerprint(capsys: pytest.CaptureFixture[str]) -> None:
    made = made_comparison(
        ("decision-transformer",), 1, SHORT, (), ("bc",), failed=[("decision-transformer", 0)], checkpoints=1
    )
    contents = {dataset.data.name: {"another", dataset.data.fingerprint} for dataset in made.datasets}
    scores = standins.scores_of(made, contents)
    assert {name: list(of) for name, of in scores.items()} == {name: ["bc"] for name in SHORT}
    (cell,) = made.trials_of("bc", HOPPER)
    assert scores[HOPPER]["bc"] == pytest.approx(cell.targets[0].score_mean)
    whole = made_comparison(("decision-transformer",), 1, SHORT, (), ("bc",), checkpoints=1)
    (cell,) = whole.trials_of("decision-transformer", HOPPER)
    assert cell.targets[0].target_return == 3600  # the paper's first target
    assert standins.scores_of(whole, contents)[HOPPER]["decision-transformer"] == cell.targets[0].score_mean
    assert capsys.readouterr().out == ""
    assert set(standins.scores_of(whole, {**contents, HOPPER: {"another"}})) == {SHORT[1]}
    assert f"left out: bc on {HOPPER}, which has other contents" in capsys.readouterr().out


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the script's results/ and runs/, with two stand-ins of three short episodes each."""
    generator = np.random.default_rng(0)
    stores = {}
    for name in SHORT:
        episodes = [
            Episode(generator.normal(size=(6, 11)), generator.uniform(-1, 1, (5, 3)), np.ones(5), True, False)
            for _ in range(3)
        ]
        stores[name] = EpisodeStore.write(
            tmp_path / name.replace("/", "-"), episodes, environment_id="Hopper-v5", source={}
        )
    monkeypatch.setattr(standins, "DATASETS", {name: standins.DATASETS[name] for name in SHORT})
    monkeypatch.setattr(
        standins, "open_dataset", lambda name: SimpleNamespace(open=lambda: stores[name], spec=open_dataset(name).spec)
    )
    monkeypatch.setattr(standins, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(standins, "draw", lambda returns, path: path.write_bytes(b""))
    monkeypatch.setattr("sys.argv", ["scripts/standins.py", "--comparison", str(tmp_path / "runs")])
    return tmp_path


def table(places: Path) -> dict[str, list[str]]:
    lines = (places / "results" / "README.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| hopper")]
    return {row[0]: row[1:] for row in rows}


def test_standins_report_shows_only_published_scores_without_finished_runs(places: Path) -> None:
    standins.main()
    text = (places / "results" / "README.md").read_text()
    assert "There is no comparison yet." in text
    assert f"The real sets' statistics are those that {standin_observations.SOURCE} give." in text
    assert "**hopper-medium**: the means differ by at most " in text
    assert "walker2d" not in text.partition("The real sets' statistics")[2].partition("**")[2]
    assert table(places)["hopper-medium"][-2:] == ["(53.5)", "(65.1)"]
    assert table(places)["hopper-medium"][0] == "15"
    assert table(places)["hopper-medium"][2] == "5 (1,422, -100%)"


def test_standins_report_has_the_scores_of_the_comparison_and_keeps_a_copy_of_it(places: Path) -> None:
    made = made_comparison(("decision-transformer",), 1, SHORT, (), ("bc",), checkpoints=1)
    data = made.to_dict()
    for dataset in data["datasets"]:
        name = dataset["data"]["name"].replace("/", "-")
        dataset["data"]["fingerprint"] = json.loads((places / name / "manifest.json").read_text())["fingerprint"]
    (places / "runs").mkdir()
    (places / "runs" / "comparison.json").write_text(json.dumps(data))
    standins.main()
    (cloning,), (transformer,) = (made.trials_of(label, HOPPER) for label in standins.METHODS)
    scores = [f"{cell.targets[0].score_mean:.1f}" for cell in (cloning, transformer)]
    assert table(places)["hopper-medium"][-2:] == [f"{scores[0]} (53.5)", f"{scores[1]} (65.1)"]
    text = (places / "results" / "README.md").read_text()
    assert f"`{made.command}` at commit 0123456789ab, seed 0, on Test CPU, in comparison.json" in text
    assert f"The scores of bc and decision-transformer: `{made.command}`" in text
    (places / "runs" / "comparison.json").unlink()
    standins.main()  # from the copy kept with the results
    assert (places / "results" / "README.md").read_text() == text


def test_standins_report_names_only_the_methods_that_have_scores() -> None:
    without = made_comparison(("mingru",), 1, SHORT, (), ("bc",), checkpoints=1)
    cells = [replace(cell, commit="of-mingru") if cell.variant == "mingru" else cell for cell in without.trials]
    text = standins.report({}, replace(without, trials=tuple(cells)), {HOPPER: {"mingru": 70.0, "bc": 50.0}})
    assert f"The scores of bc: `{without.command}` at commit 0123456789ab, seed 0" in text
    none = standins.report({}, without, {HOPPER: {"mingru": 70.0}})
    assert f"`{without.command}` has no score of bc or decision-transformer on these sets." in none


def test_standins_json_entries_are_reused_only_if_recipe_and_keys_match(places: Path) -> None:
    standins.main()
    kept = places / "results" / "standins.json"
    entries = json.loads(kept.read_text())
    for name, recipes in ((SHORT[0], entries[SHORT[0]]["recipes"]), (SHORT[1], ["of another recipe"])):
        entries[name] = {**entries[name], "score": -1.0, "recipes": recipes}
    kept.write_text(json.dumps(entries))
    standins.main()
    scores = {name: entry["score"] for name, entry in json.loads(kept.read_text()).items()}
    assert scores[SHORT[0]] == -1
    assert scores[SHORT[1]] > 0
    del entries[SHORT[0]]["observations"]  # as in files from before observations were compared
    kept.write_text(json.dumps(entries))
    standins.main()
    assert json.loads(kept.read_text())[SHORT[0]]["score"] > 0


def test_standins_outside_the_comparison_are_not_opened_while_they_are_kept(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standins.main()
    before = table(places)
    data = made_comparison(("decision-transformer",), 1, SHORT[:1], (), ("bc",), checkpoints=1).to_dict()
    (places / "runs").mkdir()
    (places / "runs" / "comparison.json").write_text(json.dumps(data))
    opened, opens = [], standins.open_dataset
    monkeypatch.setattr(standins, "open_dataset", lambda name: opened.append(name) or opens(name))
    standins.main()
    assert opened == [SHORT[0]]
    assert set(table(places)) == set(before)
