"""Short clips of acting agents, embedded in the page, or the reasons why there are none."""

import base64
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup
from PIL import Image, ImageSequence

from decision_rnn.comparison.record import Comparison, Target, Trial
from decision_rnn.comparison.report.parts import Chart, Group, Section
from decision_rnn.comparison.report.words import capitalised, describe_targets
from decision_rnn.evaluation.video import film
from decision_rnn.training.run_files import last_checkpoint
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import warn

SECONDS = 5.0
"""Longest clip: animations longer than this need a button to stop them (WCAG 2.2.2)."""


def clips_section(comparison: Comparison, folder: Path, count: int, plugins: Sequence[str] = ()) -> Section:
    """The section with clips of the first `count` variants, whose runs are in `folder`, or with the reasons why they
    cannot be rendered."""
    charts: list[Chart] = []
    reasons: list[str] = []
    datasets = {dataset.data.name: dataset for dataset in comparison.datasets}
    first = {trial.variant: trial for trial in reversed(comparison.trials)}
    played = [first[of.label] for of in comparison.variants if of.label in first and first[of.label].targets]
    for trial in played[:count]:
        target, _ = datasets[trial.dataset].with_results(trial)[0]
        try:
            charts.append(_clip(folder / trial.run, trial, target, plugins))
        except InputError as error:
            reasons.append(f"There is no clip of {trial.variant}: {error}.")
            warn(reasons[-1])
    text = (
        "The beginning of the first episode of the first seed's agent, at its true speed, played once: an impression, "
        "not a measurement. Reload the page to see it again."
    )
    groups = [Group("", text=reasons, charts=charts)] if charts or reasons else []
    return Section("Clips", "", groups, text * bool(charts), foldable=False)


def _clip(run: Path, trial: Trial, target: Target, plugins: Sequence[str]) -> Chart:
    try:
        agent = last_checkpoint(run)
    except InputError:
        raise InputError("the run's folder or its checkpoint is not here") from None
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "clip.webp"
        (end,) = film(agent, path, target.target_return, 1, None, seconds=SECONDS, plugins=plugins)
        moving, still = path.read_bytes(), io.BytesIO()
        with Image.open(path) as clip:
            *_, last = ImageSequence.Iterator(clip)
            last.save(still, "WEBP", quality=65)
    where = describe_targets([target])
    note = f"{end.steps} steps earn {end.earned:.6g}, and the episode {'ends there' if end.ended else 'goes on'}"
    urls = (f"data:image/webp;base64,{base64.b64encode(image).decode()}" for image in (still.getvalue(), moving))
    picture = Markup(
        '<picture><source media="(prefers-reduced-motion: reduce)" srcset="{}"><img src="{}" alt="{}" width="240" '
        'height="240"></picture>'
    ).format(*urls, f"Animation: {trial.variant} on {trial.dataset}, seed {trial.seed}, {where}: {note}.")
    return Chart(trial.variant, picture, f"{capitalised(where)}; {note}.")
