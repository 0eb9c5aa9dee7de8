"""Makes results/memory/recall: whether layers learn to recall across the segments that they are trained on.

    python scripts/recall_across_segments.py [--seeds 5]

A sign is observed at an episode's first step and has to be named `delay` steps later. Training reads segments of ten
steps and carries the state, but not the gradient, from one to the next (truncated backpropagation through time), so
that for delays above ten no gradient leads from the answer to the sign.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from results_folder import RESULTS, provenance, source, table, with_range, write_report
from torch import Tensor, nn

from decision_rnn.agent import TrainingOutput
from decision_rnn.backbones import BACKBONES, Backbone, registered
from decision_rnn.backbones.time_scales import FadingConfig
from decision_rnn.config import TrainingConfig
from decision_rnn.training.trainer import Trainer

CONTEXT, ROWS, WIDTH, STEPS = 10, 64, 32, 500
DELAYS, HALF_LIVES = (5, 15, 50, 150), (20, 200)
FOLDER = RESULTS / "memory" / "recall"


class Batch(NamedTuple):
    """Segments: inputs (rows, context, 2), the sign at an episode's first step and 1 at its last, else 0; signs 0 or 1
    and where the state is reset, (rows, context)."""

    x: Tensor
    sign: Tensor
    reset: Tensor


class Signs:
    """Rows of episodes of `delay` + 1 steps, which go on from batch to batch; each begins somewhere in an episode."""

    def __init__(self, delay: int, seed: int) -> None:
        self.length, self.generator = delay + 1, torch.Generator().manual_seed(seed)
        self.place = torch.randint(self.length, (ROWS,), generator=self.generator)
        self.sign = torch.randint(2, (ROWS,), generator=self.generator)

    def sample(self) -> Batch:
        """The next segment of every row."""
        x, sign = torch.zeros(ROWS, CONTEXT, 2), torch.zeros(ROWS, CONTEXT)
        reset = torch.zeros(ROWS, CONTEXT, dtype=torch.bool)
        for t in range(CONTEXT):
            reset[:, t] = self.place == 0
            self.sign = torch.where(reset[:, t], torch.randint(2, (ROWS,), generator=self.generator), self.sign)
            x[:, t, 0] = reset[:, t] * (2 * self.sign - 1)
            x[:, t, 1] = self.place == self.length - 1
            sign[:, t] = self.sign
            self.place = (self.place + 1) % self.length
        return Batch(x, sign, reset)


class Recall(nn.Module):
    """Embedding, one block of a backbone, and the logit of the sign; for `Trainer`."""

    def __init__(self, name: str, **options: float) -> None:
        super().__init__()
        self.embedding = nn.Linear(2, WIDTH)
        self.backbone = Backbone(registered(name).config(name=name, width=WIDTH, layers=1, mlp_ratio=1.0, **options))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, batch: Batch, state: tuple[Tensor, ...] | None = None) -> TrainingOutput:
        """The cross-entropy at the episodes' last steps, the number of these, and how many answers are right."""
        y, state = self.backbone(self.embedding(batch.x), state, batch.reset)
        last = batch.x[..., 1] > 0
        logit, sign = self.head(y)[..., 0][last], batch.sign[last]
        counts = {"right": ((logit > 0) == sign.bool()).sum().float(), "answers": last.sum().float()}
        return TrainingOutput(F.binary_cross_entropy_with_logits(logit, sign, reduction="sum") / ROWS, counts, state)


def accuracy(name: str, half_life: float | None, delay: int, seed: int) -> float:
    """Percentage of right answers over the last fifth of the training, on signs that are new."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = Recall(name) if half_life is None else Recall(name, init_half_life=half_life)
    settings = TrainingConfig(
        steps=STEPS, warmup_steps=50, learning_rate=5e-3, gradient_clip=1.0, ema_decay=0, precision="fp32", device="cpu"
    )
    trainer, signs = Trainer(model, settings, model.backbone.initial_state), Signs(delay, seed)
    metrics = [trainer.step(signs.sample()).metrics for _ in range(STEPS)][-STEPS // 5 :]
    right, answers = (sum(each[key].item() for each in metrics) for key in ("right", "answers"))
    return 100 * right / answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    sentence = provenance(seeds)
    rows: list[tuple[str, float | None]] = []
    for name in BACKBONES.names():
        fading = issubclass(registered(name).config, FadingConfig)
        rows += [(name, half_life) for half_life in (HALF_LIVES if fading else (None,))]
    cells = [(*row, delay, seed) for row, delay, seed in product(rows, DELAYS, seeds)]
    with ProcessPoolExecutor() as pool:
        percentages = pool.map(accuracy, *zip(*cells, strict=True))
        measured = [(*cell, round(percentage, 1)) for cell, percentage in zip(cells, percentages, strict=True)]
    FOLDER.mkdir(parents=True, exist_ok=True)
    data = pd.DataFrame(measured, columns=["backbone", "half-life", "delay", "seed", "accuracy_percent"])
    data.to_csv(FOLDER / "recall.csv", index=False)
    lines = []
    for name, half_life in rows:
        line = [name, "" if half_life is None else f"{half_life:g}"]
        for delay in DELAYS:
            values = [value for *cell, _, value in measured if cell == [name, half_life, delay]]
            line.append(with_range(sum(values) / len(values), min(values), max(values)))
        lines.append(line)
    delays = [f"{delay} steps" for delay in DELAYS]
    text = [
        "# Recall across segments",
        "A sign has to be named some steps after it was observed: right answers in %, chance 50, after "
        f"{STEPS} steps of training on segments of {CONTEXT} steps. The state is carried from segment to segment, the "
        f"gradient is not. One layer of width {WIDTH}, {ROWS} rows; mean over seeds and their range. The half-life, in "
        "steps, is the longest at the start of training.",
        table(["backbone", "half-life", *delays], lines),
        source(FOLDER / "recall.csv", [*delays, *map(str, HALF_LIVES)]),
    ]
    write_report(FOLDER / "README.md", "\n\n".join(text), sentence)


if __name__ == "__main__":
    main()
