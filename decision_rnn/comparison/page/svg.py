"""Matplotlib figures as inline SVG: text stays text, colours follow the page, and screen readers get a description."""

import io
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from decision_rnn.comparison.page.style import INK, MUTED, themed

WIDTH = 340
"""Width of a chart in pixels: that of a phone, so that text is never scaled down until it is unreadable."""

FRAME = 62
"""Approximate height in pixels of the parts of a chart outside its axes."""

SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "decision-rnn",  # makes the page reproducible
    "text.parse_math": False,  # labels are literal text
    "font.size": 12,
    "axes.labelsize": 12,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.dpi": 72,  # one unit of the SVG is one pixel
}
REFERENCE = re.compile(r'url\(#([^)]+)\)|xlink:href="#([^"]+)"')
PLACES, PLACE = re.compile(r' (?:d|x|y|width|height|transform)="[^"]*"'), re.compile(r"\d+\.\d{2,}")
"""Attributes whose numbers are pixels, for which one decimal is enough, and numbers with more decimals."""
UNUSED_GROUP = re.compile(r"<g>\s*</g>")


class Canvas:
    """Makes the charts of one page, with unique ids for their elements."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    @contextmanager
    def panel(self, title: str, description: str, height: int = 230) -> Iterator[tuple[Axes, list[Markup]]]:
        """A panel to draw into; the SVG is in the list when the block ends.

        Args:
            title: Title of the picture.
            description: Description of the picture, for screen readers.
            height: Height in pixels.
        """
        with matplotlib.rc_context(SETTINGS):
            figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
            drawn: list[Markup] = []
            yield figure.add_subplot(), drawn
            buffer = io.StringIO()
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
        drawn.append(inline(buffer.getvalue(), f"c{next(self._numbers)}", title, description))


def inline(svg: str, key: str, title: str, description: str) -> Markup:
    """Turn an SVG file written by Matplotlib into a part of an HTML page.

    Args:
        svg: Content of the file.
        key: Prefix of its ids, which must be unique on a page.
        title: Title of the picture.
        description: Description of the picture.
    """
    body = svg[svg.index("</defs>", svg.index("<svg")) + len("</defs>") : svg.rindex("</svg>")]
    used = {name for found in REFERENCE.findall(body) for name in found if name}
    body = re.sub(r' id="([^"]+)"', lambda found: f' id="{key}-{found[1]}"' if found[1] in used else "", body)
    body = REFERENCE.sub(lambda found: f"url(#{key}-{found[1]})" if found[1] else f'href="#{key}-{found[2]}"', body)
    body = re.sub(r" font-family: [^;\"]*;?", "", body)
    body = re.sub(r"font: ((?:\w+ )*[\d.]+px) [^;\"]*", r"font: \1 system-ui, sans-serif", body)
    body = PLACES.sub(lambda found: PLACE.sub(lambda number: f"{float(number[0]):.1f}", found[0]), body)
    body = re.sub(r' transform="rotate\(-?0 [^"]*"', "", body)
    body = themed(" ".join(body.split()).replace("> <", "><"))
    while UNUSED_GROUP.search(body):
        body = UNUSED_GROUP.sub("", body)
    size = re.search(r'viewBox="([^"]+)"', svg)
    assert size is not None
    return Markup(  # safe: title and description are escaped here, the body by Matplotlib
        f'<svg role="img" viewBox="{size[1]}" aria-labelledby="{key}-title {key}-desc">'
        f'<title id="{key}-title">{escape(title)}</title><desc id="{key}-desc">{escape(description)}</desc>'
        f"{body}</svg>"
    )
