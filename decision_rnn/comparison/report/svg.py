"""Charts as inline SVG. Colours come from the page's style sheet (templates/page.css), so that one picture suits light
and dark themes; its alternative text is the title with a description."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from scipy.optimize import isotonic_regression

WIDTH = 340
"""Width of a chart in pixels: that of a phone, so that text is never scaled down until it is unreadable."""
LINE = 15
"""Distance of labels in pixels."""
LETTER = 6.6
"""Approximate width of a letter of a label in pixels."""
LONGEST = 18
"""The longest label, in characters, that a chart has room for."""
SHAPES = ("M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "M-3.5-3.5h7v7h-7z", "M0-5L5 0L0 5L-5 0z", "M0-4.5L4.5 3.5H-4.5z")
"""Paths of the variants' marks: circle, square, diamond and triangle."""
DOT, END = "M-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0z", "M0-4v8"
"""Paths of a seed's mark and of an interval's end."""

Values = Sequence[float] | np.ndarray
Point = tuple[float, float]


@dataclass(frozen=True)
class Mark:
    """How a variant is drawn: CSS classes that give its colour, and the path of its mark. No variant is identified by
    these alone: it also has a title, a label at its mark, or a row of its own."""

    css: str
    shape: str


@dataclass(frozen=True)
class Axis:
    """An axis from its left or lower end to the other; `names` are texts at 0, 1, 2, ... in place of numbers."""

    label: str
    low: float
    high: float
    log: bool = False
    names: Sequence[str] = ()

    @classmethod
    def around(cls, label: str, values: Values, log: bool = False) -> "Axis":
        """An axis that holds all values, with a margin; for a logarithmic one they are positive."""
        low, high = float(np.min(values)), float(np.max(values))
        if log:
            return cls(label, low / 1.3, high * 1.3, log)
        margin = 0.07 * (high - low) or max(1.0, 0.05 * abs(high))
        return cls(label, low - margin, high + margin)

    def place(self, value: float) -> float:
        """Where a value is, from 0 at the low end to 1 at the high one."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """A few round values, with their texts."""
        if self.names:
            return [(i, shortened(name)) for i, name in enumerate(self.names)]
        if self.log:
            decades = math.log10(self.high / self.low)
            steps = (1,) if decades > 2 else (1, 2, 5) if decades > 0.5 else (1, 1.5, 2, 3, 5, 7)
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)))
            values = [step * 10.0**power for power in powers for step in steps]
        else:
            size = 10.0 ** math.floor(math.log10((self.high - self.low) / 6))
            step = next(size * of for of in (1, 2, 5, 10) if size * of * 6 >= self.high - self.low)
            values = [i * step for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        return [(value, compact(value)) for value in values if self.low <= value <= self.high]


class Plot:
    """A chart, drawn with the methods below; coordinates are those of the axes.

    `described` says what it shows, for screen readers; `height` is that between the axes, in pixels; `named` are labels
    for which there is room to the right.
    """

    def __init__(
        self, title: str, described: str, x: Axis, y: Axis, height: float = 170, named: Sequence[str] = ()
    ) -> None:
        self.alternative, self.x, self.y = f"{title}: {described}", x, y
        ticks = y.ticks()
        self.left = max((len(text) for _, text in ticks), default=1) * LETTER + (24 if y.label else 10)
        self.right = WIDTH - (16 + max(len(shortened(label)) for label in named) * LETTER if named else 10)
        self.top, self.bottom = 16.0, 16.0 + height
        self.parts: list[Markup] = []
        for value, text in ticks:
            at = self._y(value)
            if not y.names:
                self._path(f"M{self.left:.1f} {at:.1f}H{self.right:.1f}", "grid")
            self._text(self.left - 6, at + 4, text, f'class="{"name" if y.names else "tick"}" text-anchor="end"')
        for value, text in x.ticks():
            at = self._x(value)
            self._path(f"M{at:.1f} {self.bottom:.1f}v{self.top - self.bottom if y.names else 4:.1f}", "grid")
            self._text(at, self.bottom + 17, text, 'class="tick" text-anchor="middle"')
        self._path(f"M{self.left:.1f} {self.top:.1f}V{self.bottom:.1f}H{self.right:.1f}", "frame")
        middle = (self.top + self.bottom) / 2
        self._text((self.left + self.right) / 2, self.bottom + 35, x.label, 'text-anchor="middle"')
        self._text(12, middle, y.label, f'text-anchor="middle" transform="rotate(-90 12 {middle:.1f})"')

    def line(self, x: Values, y: Values, css: str, end: str = "") -> None:
        """A line through points; `end="z"` closes it."""
        places = (f"{self._x(a):.1f} {self._y(b):.1f}" for a, b in zip(x, y, strict=True))
        self._path("M" + "L".join(places) + end, f"line {css}")

    def band(self, x: np.ndarray, low: np.ndarray, high: np.ndarray, css: str) -> None:
        """The area between two curves."""
        self.line([*x, *x[::-1]], [*high, *low[::-1]], f"band {css}", end="z")

    def marks(self, x: Values, y: Values, css: str, shape: str) -> None:
        """A mark of a shape, one of `SHAPES` or `DOT` or `END`, at each point."""
        for a, b in zip(x, y, strict=True):
            self._path(shape, f"mark {css}", f' transform="translate({self._x(a):.1f} {self._y(b):.1f})"')

    def vertical(self, x: float, text: str, dotted: bool = False) -> None:
        """A dashed line at x with a text above it, or a dotted line with a text along it."""
        at = self._x(x)
        self._path(f"M{at:.1f} {self.top:.1f}V{self.bottom:.1f}", f"reference{' dotted' * dotted}")
        if dotted:
            place = f"{at - 4:.1f} {self.bottom - 6:.1f}"
            self._text(0, 0, text, f'class="note" transform="translate({place}) rotate(-90)"')
        else:
            half = len(text) * LETTER / 2.2
            inside = min(max(at, half), WIDTH - half)
            self._text(inside, self.top - 5, text, 'class="note" text-anchor="middle"')

    def labels(self, points: Mapping[str, Point], marks: Mapping[str, Mark]) -> None:
        """Write labels to the right without overlap, with thin lines to their points."""
        height = self.bottom - self.top
        wishes = [(self._y(y) - self.top) / height for _, y in points.values()]
        for (label, (x, y)), place in zip(points.items(), spread_out(wishes, LINE / height), strict=True):
            at = self.top + place * height
            start = f"M{self.right + 10:.1f} {at:.1f}L{self._x(x):.1f} {self._y(y):.1f}"
            self._path(start, f"line leader {marks[label].css}")
            self._text(self.right + 13, at + 4, shortened(label), 'class="name"')

    def svg(self) -> Markup:
        return Markup('<svg role="img" viewBox="0 0 {} {:.0f}" aria-label="{}">{}</svg>').format(
            WIDTH, self.bottom + (42 if self.x.label else 24), self.alternative, Markup("").join(self.parts)
        )

    def _x(self, value: float) -> float:
        return self.left + self.x.place(value) * (self.right - self.left)

    def _y(self, value: float) -> float:
        return self.bottom - self.y.place(value) * (self.bottom - self.top)

    def _path(self, path: str, css: str, attributes: str = "") -> None:
        self.parts.append(Markup('<path class="{}" d="{}"{}/>').format(css, path, Markup(attributes)))

    def _text(self, x: float, y: float, text: str, attributes: str) -> None:
        if text:
            self.parts.append(Markup('<text x="{:.1f}" y="{:.1f}" {}>{}</text>').format(x, y, Markup(attributes), text))


def shortened(label: str) -> str:
    """A label, with an ellipsis in the middle if it is too long for a chart."""
    half = (LONGEST - 1) // 2
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1 - half]}…{label[-half:]}"


def compact(value: float) -> str:
    """A number short enough for a tick: `1.5k`, `2M`."""
    size, letter = next((of for of in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if abs(value) >= of[0]), (1.0, ""))
    return f"{value / size:.6g}{letter}".replace("-", "\N{MINUS SIGN}")


def spread_out(places: Sequence[float], gap: float) -> list[float]:
    """Move places in [0, 1] as little as possible, in squares, so that any two are `gap` apart, or less if there is no
    room."""
    offsets = np.arange(len(places)) * min(gap, 1 / max(len(places) - 1, 1))
    order = np.argsort(places, kind="stable")
    moved = isotonic_regression(np.asarray(places, np.float64)[order] - offsets).x
    result = np.empty(len(places))
    result[order] = np.clip(moved, 0, 1 - offsets[-1]) + offsets
    return result.tolist()
