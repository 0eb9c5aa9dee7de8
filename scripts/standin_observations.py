"""Means and standard deviations of the medium stand-ins' observations, compared with those of D4RL's datasets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from results_folder import table

from decision_rnn.data.spec import TASKS

SOURCE = (
    "the model cards of huggingface.co/edbeeching/decision-transformer-gym-hopper-medium, -halfcheetah-medium and "
    "-walker2d-medium"
)
"""Source of `REAL`: Decision Transformers trained on D4RL's v2 datasets, which normalise observations with `REAL`."""


@dataclass(frozen=True)
class Observations:
    """Means and standard deviations of the observations of a dataset: (entries,) each."""

    mean: Sequence[float]
    sd: Sequence[float]


# fmt: off
REAL = {
    "standin/hopper-medium": Observations(
        (1.311279, -0.084695, -0.538272, -0.072016, 0.049324, 2.106686, -0.150174, 0.008783, -0.284819, -0.185401,
         -0.284613),
        (0.177908, 0.054446, 0.212971, 0.145304, 0.612444, 0.851745, 1.451525, 0.675170, 1.536239, 1.616075,
         5.607254),
    ),
    "standin/halfcheetah-medium": Observations(
        (-0.068458, 0.016415, -0.183549, -0.276246, -0.340615, -0.093397, -0.213213, -0.087742, 5.173008, -0.042752,
         -0.036108, 0.140538, 0.060498, 0.095510, 0.067391, 0.005627, 0.013383),
        (0.074730, 0.302350, 0.302073, 0.344171, 0.176192, 0.507206, 0.256701, 0.329481, 1.257415, 0.760054,
         1.980092, 6.565363, 7.466368, 4.472223, 10.566964, 5.671933, 7.498259),
    ),
    "standin/walker2d-medium": Observations(
        (1.218966, 0.141634, -0.037049, -0.138143, 0.513822, -0.047191, -0.472884, 0.042254, 2.394887, -0.031432,
         0.044664, -0.023907, -0.101340, 0.090909, -0.004193, -0.121206, -0.549706),
        (0.123114, 0.324188, 0.114561, 0.262307, 0.564028, 0.227188, 0.383732, 0.737368, 1.238793, 0.798021,
         1.566408, 1.809271, 3.025604, 4.062486, 1.458657, 3.744569, 5.585129),
    ),
}
# fmt: on
JOINTS = {  # in the order of Gymnasium's documentation; v4 and v5 have the same
    "hopper": ("thigh", "leg", "foot"),
    "halfcheetah": ("back thigh", "back shin", "back foot", "front thigh", "front shin", "front foot"),
    "walker2d": ("right thigh", "right leg", "right foot", "left thigh", "left leg", "left foot"),
}


def entries_of(task: str) -> list[str]:
    """Names of an observation's entries: first the positions, then the velocities, which include that forwards."""
    parts = ("torso", *JOINTS[task])
    positions = ["height", *(f"{part}, angle" for part in parts)]
    return [*positions, "speed forwards", "speed upwards", *(f"{part}, angular velocity" for part in parts)]


def differences(name: str, ours: Observations) -> np.ndarray:
    """The differences of our means from the real ones, in real standard deviations, (entries,)."""
    return (np.array(ours.mean) - REAL[name].mean) / REAL[name].sd


def compared(name: str, ours: Observations) -> str:
    """A dataset's table, and above it the largest differences of means among the positions and the velocities."""
    short = name.removeprefix("standin/")
    task = short.partition("-")[0]
    off, names, positions = differences(name, ours), entries_of(task), TASKS[task].positions
    largest = [
        f"{abs(off[part]).max():.1f} over the {kind} ({names[part][abs(off[part]).argmax()]})"
        for kind, part in (("positions", slice(positions)), ("velocities", slice(positions, None)))
    ]
    real = REAL[name]
    head = ["entry", "real, mean ± sd", "ours", "difference of the means, in real sd", "our sd over the real one"]
    rows = []
    for i, entry in enumerate(names):
        both = (f"{of.mean[i]:.3f} ± {of.sd[i]:.3f}" for of in (real, ours))
        rows.append([entry, *both, f"{off[i]:+.2f}", f"{ours.sd[i] / real.sd[i]:.2f}"])
    return f"**{short}**: the means differ by at most {' and '.join(largest)}.\n\n{table(head, rows)}"
