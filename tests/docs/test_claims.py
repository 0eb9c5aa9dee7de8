"""Numbers in README and docs are those of results/: `scripts/check_claims.py` passes, and it finds what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from check_claims import faults
from made_comparison import of_scores

from decision_rnn.comparison.results import write_comparison

Check = Callable[..., list[str]]
SCORES = """# Scores

| scores | minGRU | MLP |
| --- | --- | --- |
| standin/hopper-medium | 77.34 (78.3, 76.4) | 78.5 |
| standin/walker2d-medium | 66.4 | 61.4 |

## standin/ant-medium

| score | auto |
| --- | --- |
| minGRU | 12.3 |
| MLP | 45.6 |
"""
SPEED = [{"name": "train/mingru/fp32", "value": 58.97, "baseline": {"name": "train/dt/fp32", "value": 239.3}}]
SPEED += [{"name": "train/mlp/fp32", "value": 53.1}, {"name": "train/mingru/bf16", "value": 37.15}]
LENGTHS = "backbone,seed,steps,accuracy\ngru,0,90,100.0\ngru,1,90,81.0\nlru,0,90,50.0\n"


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """The faults of a page, by default one of evidence, beside three sources."""
    for file, text in {"a.md": SCORES, "speed.json": json.dumps(SPEED), "maze.csv": LENGTHS}.items():
        (tmp_path / "results").mkdir(exist_ok=True)
        (tmp_path / "results" / file).write_text(text)

    def written(text: str, page: str = "docs/results/page.md") -> list[str]:
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / page).write_text(text)
        return [fault.removeprefix(f"{page}:") for fault in faults(tmp_path)]

    return written


def test_every_number_of_readme_and_docs_has_its_source() -> None:
    assert list(faults()) == []


@pytest.mark.parametrize(
    "text",
    [
        "minGRU scores 77.3, 77 to 2 digits. <!-- results/a.md; settings: 2 digits -->",
        "minGRU takes 59 ms,\n1.6 times as long as 37.2. <!-- results/speed.json#mingru; 1.6 = 58.97 / 37.15 -->",
        "GRU succeeds in 90.5% (81 to 100). <!-- results/maze.csv#gru -->",
        "- minGRU 77.3 <!-- results/a.md -->\n- LRU 50 <!-- results/maze.csv#lru -->",
        "| | minGRU | MLP |\n| --- | --- | --- |\n| hopper-medium | 77.3 | 78 |\n\n<!-- results/a.md -->",
        "| | minGRU | MLP |\n| --- | --- | --- |\n| ant-medium | 12.3 | 46 |\n\n<!-- results/a.md -->",
        "| | fp32 | bf16 |\n| --- | --- | --- |\n| minGRU | 59 | 37 |\n| MLP | 53 | |\n\n<!-- results/speed.json -->",
        "| | |\n| --- | --- |\n| Does it score? | 77.3 <!-- results/a.md --> |",
        "`mingru 12`, [H200](https://a.org/12), S4D, v5, 4-step, 10% BC\n\n```\n12\n```",
    ],
)
def test_numbers_of_the_source_pass(check: Check, text: str) -> None:
    assert check(text) == []


@pytest.mark.parametrize(
    ("text", "line", "number"),
    [
        ("minGRU scores 77.4. <!-- results/a.md -->", 1, "77.4"),
        ("minGRU\n\nscores 77.3.", 3, "77.3"),
        ("minGRU scores 77.3. <!-- settings: 77 -->", 1, "77.3"),
        ("minGRU scores 77.3. <!-- results/b.md -->", 1, "results/b.md"),
        ("minGRU scores 77.3. <!-- results/a.md#walker2d-medium -->", 1, "77.3"),
        ("1.7 times 37.15 <!-- results/speed.json#mingru; 1.7 = 58.97 / 37.15 -->", 1, "1.7"),
        ("1.6 times 37.15 <!-- results/speed.json#mingru; 1.6 = 59.44 / 37.15 -->", 1, "1.6"),
        ("MLP 239 <!-- results/speed.json -->", 1, "239"),
        ("- LRU 50 <!-- results/maze.csv -->\n- minGRU 77.3", 2, "77.3"),
        ("| | MLP |\n| --- | --- |\n| walker2d-medium | 78.5 |\n\n<!-- results/a.md -->", 3, "78.5"),
        (
            "| | MLP | minGRU |\n| --- | --- | --- |\n| hopper-medium | 78.5 | 77.3 |\n\n<!-- results/a.md -->",
            3,
            "77.3",
        ),
        ("| | MLP |\n| --- | --- |\n| ant-medium | 78.5 |\n\n<!-- results/a.md -->", 3, "78.5"),
        ("| | fp32 |\n| --- | --- |\n| MLP | 58.97 |\n\n<!-- results/speed.json -->", 3, "58.97"),
    ],
)
def test_wrong_and_swapped_numbers_and_those_without_source_fail(
    check: Check, text: str, line: int, number: str
) -> None:
    fault, *_ = check(text)
    assert fault.startswith(f"{line}: ")
    assert number in fault


def test_prose_from_many_numbers_names_its_rows(check: Check, tmp_path: Path) -> None:
    many = "".join(f"| a{number} | {number} |\n" for number in range(200))
    (tmp_path / "results" / "many.md").write_text(f"| | b |\n| --- | --- |\n{many}")
    (fault,) = check("It scores 12. <!-- results/many.md -->")
    assert "FILE#ROW" in fault
    assert check("It scores 12. <!-- results/many.md#a12 -->") == []


def test_other_pages_need_a_source_where_they_link_to_results(check: Check) -> None:
    assert check("There are 13.", "docs/page.md") == []
    assert len(check("There are [13](../results/a.md).", "docs/page.md")) == 1
    assert len(check("There are 13. <!-- results/a.md -->", "docs/page.md")) == 1


def test_tables_of_a_comparison_are_those_of_its_record(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "small"
    folder.mkdir(parents=True)
    write_comparison(folder, of_scores({"mingru": [50.0, 52.0], "lru": [40.0, 41.0]}))
    tables = (folder / "comparison.md").read_text()
    (folder / "README.md").write_text(f"# Small\n\n{tables}")
    assert list(faults(tmp_path)) == []
    (folder / "README.md").write_text(tables.replace("51.0 (50.0, 52.0)", "51.0 (50.0, 52.1)"))
    assert any("51.0 (50.0, 52.0)" in fault for fault in faults(tmp_path))
