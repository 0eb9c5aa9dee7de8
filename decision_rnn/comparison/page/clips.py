"""Short clips of acting agents, rendered without a display and embedded in the page, or the reason if that fails."""

import base64
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from decision_rnn.checkpoint import last_checkpoint
from decision_rnn.comparison.page.parts import Chart, Group, Section
from decision_rnn.comparison.page.words import describe_target
from decision_rnn.comparison.record import Comparison, Target, Trial
from decision_rnn.errors import InputError
from decision_rnn.evaluation.rendering import render
from decision_rnn.messages import warn

PATIENCE = 180.0
"""Timeout in seconds per clip, including loading."""

Picked = tuple[Trial, Target]


def clips_section(comparison: Comparison, folder: Path, count: int, plugins: Sequence[str] = ()) -> Section | None:
    """The section with clips of the first variants, or with the reason why they cannot be rendered.

    Args:
        comparison: The record.
        folder: The folder of the record and of its runs.
        count: Number of clips; None is returned for 0.
        plugins: Modules that the agents or environments need.
    """
    picked = _pick(comparison)[:count]
    if not picked:
        return None
    found, missing = [], []
    for cell, target in picked:
        try:
            last_checkpoint(folder / cell.run)
            found.append((cell, target))
        except InputError:
            missing.append(cell.variant)
    charts, reasons = _rendered(found, folder, comparison, plugins) if found else ([], [])
    if missing:
        reasons.insert(0, f"There is no clip of {', '.join(missing)}: the run's folder or its checkpoint is not here.")
    for reason in reasons:
        warn(reason)
    text = (
        "The beginning of the first episode of the first seed's agent, at its true speed, played once: an impression, "
        "not a measurement. Reload the page to see it again.",
    )
    group = Group(text=tuple(reasons), charts=tuple(charts))
    return Section("clips", "Clips", text if charts else (), (group,))


def _pick(comparison: Comparison) -> list[Picked]:
    """For each variant the first run on the first dataset that has one, and its first target."""
    picked = []
    for variant in comparison.variants:
        for dataset in comparison.datasets:
            cells = comparison.trials_of(variant.label, dataset.data.name)
            if cells:
                picked.append((cells[0], dataset.with_results(cells[0])[0][0]))
                break
    return picked


def _rendered(
    picked: Sequence[Picked], folder: Path, comparison: Comparison, plugins: Sequence[str]
) -> tuple[list[Chart], list[str]]:
    """The clips, and the reasons for missing ones."""
    windows = {variant.label: variant.window for variant in comparison.variants}
    jobs = [
        {
            "run": str((folder / cell.run).absolute()),
            "target_return": target.target_return,
            "window": windows[cell.variant],
        }
        for cell, target in picked
    ]
    with tempfile.TemporaryDirectory() as place:
        asked = {"folder": place, "plugins": list(plugins), "jobs": jobs}
        files = [Path(place) / f"{i}.json" for i in range(len(jobs))]
        fault = render("decision_rnn.comparison.page.render", asked, files, PATIENCE * len(jobs))
        charts, reasons = [], []
        for i, (cell, target) in enumerate(picked):
            done = Path(place) / f"{i}.json"
            played = json.loads(done.read_text()) if done.is_file() else {"error": fault}
            if "error" in played:
                reasons.append(f"There is no clip of {cell.variant}: {played['error']}.")
            else:
                charts.append(_chart(cell, target, played, Path(place) / f"{i}.webp"))
    return charts, list(dict.fromkeys(reasons))


def _chart(cell: Trial, target: Target, played: dict[str, Any], path: Path) -> Chart:
    ending = "the episode ends there" if played["ended"] else "the episode goes on"
    heard = f"{played['seconds']:.1f} seconds earn {played['return']:.0f}, and {ending}"
    says = f"{cell.variant} on {cell.dataset}, seed {cell.seed}, {describe_target(target)}: {heard}"
    moving, still = (_data_url(of) for of in (path, path.with_stem(f"{path.stem}-still")))
    picture = Markup(
        '<picture><source media="(prefers-reduced-motion: reduce)" srcset="{}"><img src="{}" alt="{}" width="240" '
        'height="240"></picture>'
    ).format(still, moving, f"Animation: {says}.")
    return Chart(cell.variant, picture, f"{describe_target(target).capitalize()}; {heard}.")


def _data_url(path: Path) -> str:
    return "data:image/webp;base64," + base64.b64encode(path.read_bytes()).decode()
