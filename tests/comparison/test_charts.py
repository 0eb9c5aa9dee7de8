"""Charts drawn as SVG: places, ticks, labels, and colours with enough contrast in both themes."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from decision_rnn.comparison.report.svg import Axis, Mark, Plot, compact, shortened, spread_out

TEMPLATES = Path(__file__).parents[2] / "decision_rnn" / "comparison" / "report" / "templates"


def test_plot_draws_points_where_the_axes_say() -> None:
    plot = Plot("title", "a < b", Axis("x", 0, 10), Axis("y", 100, 200, log=True))
    plot.line([0, 10, 5], [100, 200, np.sqrt(2) * 100], "v0")
    picture = str(plot.svg())
    (path,) = re.findall(r'class="line v0" d="M([^"]+)"', picture)
    (left, bottom), (right, top), middle = (map(float, point.split()) for point in path.split("L"))
    assert (left, right) == pytest.approx((plot.left, plot.right), abs=0.05)
    assert (bottom, top) == pytest.approx((plot.bottom, plot.top), abs=0.05)
    assert tuple(middle) == pytest.approx(((left + right) / 2, (bottom + top) / 2), abs=0.1)
    assert 'aria-label="title: a &lt; b"' in picture
    plot.labels(dict.fromkeys("abc", (5, 150.0)), dict.fromkeys("abc", Mark("v0", "")))
    labels = sorted(float(y) for y in re.findall(r'y="([\d.]+)" class="name"', str(plot.svg())))
    assert np.diff(labels) == pytest.approx([15, 15], abs=0.1)


@pytest.mark.parametrize(
    ("axis", "texts"),
    [
        (Axis("", -1.5, 8.9), ["0", "2", "4", "6", "8"]),
        (Axis("", -1200, 2100), ["\N{MINUS SIGN}1k", "0", "1k", "2k"]),
        (Axis("", 0.7, 130, log=True), ["1", "10", "100"]),
        (Axis("", 90, 400, log=True), ["100", "200"]),
        (Axis("", 1.6, -0.6, names=("a", "b")), ["a", "b"]),
        (Axis.around("", [5.0]), ["4", "4.5", "5", "5.5", "6"]),
    ],
)
def test_axis_has_a_few_round_ticks(axis: Axis, texts: list[str]) -> None:
    assert [text for _, text in axis.ticks()] == texts


def test_spread_out_moves_labels_apart_by_the_least_squares() -> None:
    generator = np.random.default_rng(0)
    for count in (1, 2, 5, 8):
        wishes = generator.uniform(0, 1, count).round(2)
        places = spread_out(wishes.tolist(), 0.1)
        assert min(places) >= 0
        assert max(places) <= 1
        order = np.argsort(wishes, kind="stable")
        assert np.diff(np.array(places)[order]).min(initial=1) >= 0.1 - 1e-9
        if count <= 2:  # brute force over a grid
            grid = np.linspace(0, 1, 101)
            fits = [p for p in itertools.product(grid, repeat=count) if np.diff(np.array(p)).min(initial=1) >= 0.1]
            least = min(float(((np.array(p) - wishes[order]) ** 2).sum()) for p in fits)
            assert ((np.array(places) - wishes) ** 2).sum() <= least + 1e-6
    assert spread_out([0.2, 0.6], 0.1) == [0.2, 0.6]
    assert spread_out([0.5] * 21, 0.1) == pytest.approx(np.linspace(0, 1, 21))  # more labels than there is room for


def test_compact_numbers_and_shortened_names() -> None:
    values = {0: "0", 0.05: "0.05", 800: "800", 1500: "1.5k", -1200: "\N{MINUS SIGN}1.2k", 2e6: "2M"}
    assert {value: compact(value) for value in values} == values
    assert shortened("minlstm-context20-rate-0.0003") != shortened("minlstm-context20-rate-0.0001")
    assert len(shortened("x" * 200)) == 18


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page_colours_have_the_contrast_that_wcag_requires(theme: str) -> None:
    light, dark = (TEMPLATES / "page.css").read_text().split("@media (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"--(\w+): (#\w{6});", light if theme == "light" else dark.partition("\n}")[0]))
    assert len(colours) == 16

    def contrast(name: str) -> float:
        one, other = sorted((luminance(colours[name]), luminance(colours["surface"])))
        return (other + 0.05) / (one + 0.05)

    assert all(contrast(f"v{i}") >= 3 for i in range(12))
    assert all(contrast(name) >= 4.5 for name in ("ink", "muted", "v0"))  # v0 is the colour of links
