"""Colours, as CSS variables so that one picture suits light and dark themes, and the marks of the variants.

Matplotlib draws with placeholder colours, which `themed` replaces by the variables. No variant is identified by its
colour alone: it also has a title, a label at its mark, or a row of its own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from decision_rnn.comparison.record import ComparedVariant

INK, MUTED, GRID, SURFACE = "#0102f0", "#0102f1", "#0102f2", "#0102f3"
"""Placeholders for text, less important parts, grid lines and the background of the page."""

LIGHT = {"ink": "#1c1d21", "muted": "#5c6068", "grid": "#dadde3", "surface": "#ffffff"}
DARK = {"ink": "#e9eaee", "muted": "#a7acb7", "grid": "#3a3d46", "surface": "#17181c"}
VARIANTS = (
    ("#0072b2", "#56b4e9"),
    ("#c04f00", "#ff9655"),
    ("#00805c", "#3dcba0"),
    ("#a0468a", "#e79bd0"),
    ("#846500", "#e3be3c"),
    ("#5b4fc7", "#a79dff"),
    ("#b3263e", "#ff8495"),
    ("#007581", "#4fd0dc"),
    ("#7a4a2b", "#d6a27e"),
    ("#4b7a1f", "#a9d36c"),
    ("#8c3fbf", "#d29bff"),
    ("#5e5e5e", "#b5b5b5"),
)
"""Colours on light and dark backgrounds: the first ones are close to those of Okabe and Ito, which colour-blind readers
can tell apart; all have a contrast of at least 3 to the background."""

MARKERS = "osD^vPX<>pd*"


@dataclass(frozen=True)
class Mark:
    """How a variant is drawn in every chart."""

    colour: str
    marker: str
    control: bool

    @property
    def line(self) -> str:
        return "--" if self.control else "-"

    @property
    def face(self) -> str:
        """Fill colour of the marker; the markers of controls are hollow."""
        return SURFACE if self.control else self.colour


def marks(variants: Sequence[ComparedVariant]) -> dict[str, Mark]:
    """The marks of the variants, by label."""
    return {
        variant.label: Mark(f"#0102{i % len(VARIANTS):02x}", MARKERS[i % len(MARKERS)], variant.control)
        for i, variant in enumerate(variants)
    }


def themed(svg: str) -> str:
    """Replace the placeholder colours of a picture by CSS variables."""
    names = {INK: "ink", MUTED: "muted", GRID: "grid", SURFACE: "surface"}
    svg = re.sub("#0102f[0-3]", lambda found: f"var(--{names[found[0]]})", svg)
    return re.sub("#0102([0-9a-e][0-9a-f])", lambda found: f"var(--v{int(found[1], 16)})", svg)


def variables(theme: str) -> str:
    """The CSS variables of the theme `light` or `dark`."""
    column, base = (0, LIGHT) if theme == "light" else (1, DARK)
    colours = base | {f"v{i}": pair[column] for i, pair in enumerate(VARIANTS)}
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())
