"""A report in Markdown: the tables of every dataset, and what they were made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from decision_rnn.comparison.report.parts import Findings
from decision_rnn.comparison.report.sections import SECTIONS
from decision_rnn.comparison.report.words import listed
from decision_rnn.evaluation.actor import describe_acting
from decision_rnn.utils.machine import describe_hardware, describe_versions
from decision_rnn.utils.messages import counted

if TYPE_CHECKING:
    from decision_rnn.comparison.record import Comparison


DEFINITIONS = 'What every number means: docs/protocol.md, "The tables of a comparison".'


def format_comparison(comparison: Comparison) -> str:
    """The tables of a comparison, followed by what was compared."""
    findings = Findings(comparison)
    found = [made for make in SECTIONS if (made := make(findings)).groups]
    groups = [group for section in found for group in section.groups]
    parts = []
    for title in dict.fromkeys(group.title for group in groups):
        here = [group for group in groups if group.title == title]
        tables = [table.markdown() for group in here for table in group.tables if not table.behind_chart]
        lines = [f"- {line}" for group in here for line in group.text]
        parts += [f"## {title}", *tables, *["\n".join(lines)] * bool(lines)]
    parts.append(" ".join([*describe(comparison), *(section.text for section in found if section.text), DEFINITIONS]))
    return "\n\n".join([*parts, describe_origin(comparison)])


def describe(comparison: Comparison) -> list[str]:
    """What was compared, in sentences."""
    variants = comparison.variants
    kinds = {
        noun: [of.label for of in variants if of.control == control]
        for noun, control in (("variant", False), ("control", True))
    }
    named = [f"{counted(len(labels), noun)} ({listed(labels)})" for noun, labels in kinds.items() if labels]
    steps = _by_label({of.label: f"{of.config['training']['steps']:,}" for of in variants})
    seeds = f"{counted(len(comparison.seeds), 'seed')} ({listed(map(str, comparison.seeds))})"
    plays = (
        f"plays {counted(comparison.episodes, 'episode')} for each target, with "
        f"{_by_label({of.label: describe_acting(of.window, of.actions) for of in variants})}"
    )
    held_out = comparison.datasets[0].held_out  # the same for all datasets, if any
    if held_out is not None:
        plays = (
            f"plays nothing, since the data name no environment: it predicts the actions of {held_out.dataset}, "
            f"{counted(held_out.episodes, 'episode')} of {counted(held_out.steps, 'step')} in all"
        )
    return [
        f"{' and '.join(named)} on {listed(of.data.name for of in comparison.datasets)}, each trained for {steps} "
        f"steps with {seeds}.",
        f"The last checkpoint {plays}.",
    ]


def describe_origin(comparison: Comparison) -> str:
    """The command, commits, machines and versions behind the numbers."""
    commits = dict.fromkeys(trial.commit or "unknown, from an installed package" for trial in comparison.trials)
    machines = dict.fromkeys(
        f"{describe_hardware(trial.hardware)}; {describe_versions(trial.versions)}" for trial in comparison.trials
    )
    made = f"Made by `{comparison.command}`" + f" at commit {', '.join(commits)}" * bool(commits)
    return "; ".join([made, *machines]) + "."


def _by_label(values: Mapping[str, str]) -> str:
    """The value if all labels share it; otherwise every value with its labels."""
    labels: dict[str, list[str]] = {}
    for label, value in values.items():
        labels.setdefault(value, []).append(label)
    return "; ".join(f"{value} ({listed(of)})" if len(labels) > 1 else value for value, of in labels.items())
