"""Makes results/recall-across-slices/: whether layers learn to recall across the slices that they are trained on.

    python scripts/recall_across_slices.py

A sign is seen at an episode's first step and asked for `delay` steps later. Training reads slices of ten steps, so that
beyond ten steps no gradient leads from the answer to the sign: truncated backpropagation through time. Carried over,
the state can still hold the sign, if the layer kept it unasked: that is what its half-lives at the start decide.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from results_folder import RESULTS, Made, write_report
from torch import Tensor, nn

from decision_rnn.agent import TrainingOutput
from decision_rnn.backbones import Backbone, FadingConfig, Resets, State, registered, registered_names
from decision_rnn.config import TrainingConfig
from decision_rnn.training.trainer import Trainer

CONTEXT, ROWS, WIDTH, STEPS, SEED = 10, 64, 32, 500, 0
DELAYS, MEMORIES = (5, 15, 50, 150), (1, 20, 200)


@dataclass
class Batch:
    """Slices of ROWS rows.

    Attributes:
        x: (rows, context, 2): the sign at an episode's first step, else 0; and 1 where it is asked for.
        sign: (rows, context) of 0 or 1, the answer.
        reset: Where the state begins anew.
    """

    x: Tensor
    sign: Tensor
    reset: Resets


class Signs:
    """Rows of episodes of `delay` + 1 steps, which go on from batch to batch; each begins somewhere in an episode."""

    def __init__(self, delay: int, carried: bool) -> None:
        self.length, self.carried = delay + 1, carried
        self.generator = torch.Generator().manual_seed(SEED)
        self.place = torch.randint(self.length, (ROWS,), generator=self.generator)
        self.sign = torch.randint(2, (ROWS,), generator=self.generator)

    def sample(self) -> Batch:
        """The next slice of every row."""
        x, sign = torch.zeros(ROWS, CONTEXT, 2), torch.zeros(ROWS, CONTEXT)
        begins = torch.zeros(ROWS, CONTEXT, dtype=torch.bool)
        for t in range(CONTEXT):
            begins[:, t] = self.place == 0
            self.sign = torch.where(begins[:, t], torch.randint(2, (ROWS,), generator=self.generator), self.sign)
            x[:, t, 0] = begins[:, t] * (2 * self.sign - 1)
            x[:, t, 1] = self.place == self.length - 1
            sign[:, t] = self.sign
            self.place = (self.place + 1) % self.length
        begins[:, 0] |= not self.carried
        return Batch(x, sign, Resets.from_mask(begins))


class Recall(nn.Module):
    """Embedding, one block of a backbone, and the logit of the sign; for `Trainer`."""

    def __init__(self, name: str, **options: float) -> None:
        super().__init__()
        torch.manual_seed(SEED)
        self.embedding = nn.Linear(2, WIDTH)
        self.backbone = Backbone(registered(name).config(width=WIDTH, layers=1, mlp_ratio=1.0, **options))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, batch: Batch, state: State | None = None) -> TrainingOutput:
        """The cross-entropy where the sign is asked for, and how many answers were right, of how many."""
        y, state = self.backbone(self.embedding(batch.x), state, batch.reset)
        asked = batch.x[..., 1] > 0
        logit, sign = self.head(y)[..., 0][asked], batch.sign[asked]
        counts = {"right": ((logit > 0) == sign.bool()).sum(), "asked": asked.sum()}
        return TrainingOutput(F.binary_cross_entropy_with_logits(logit, sign, reduction="sum") / ROWS, counts, state)


def accuracy(name: str, delay: int, carried: bool, **options: float) -> float:
    """The share of right answers over the last fifth of the training, on signs that are new."""
    settings = TrainingConfig(
        steps=STEPS,
        warmup_steps=50,
        learning_rate=5e-3,
        gradient_clip=1.0,
        tbptt_slices=2 if carried else 1,
        ema_decay=0,
        precision="fp32",
        device="cpu",
    )
    trainer, signs = Trainer(Recall(name, **options), settings), Signs(delay, carried)
    counts = [trainer.step(signs.sample()).metrics for _ in range(STEPS)][-STEPS // 5 :]
    right, asked = (sum(int(count[key]) for count in counts) for key in ("right", "asked"))
    return right / asked


def main() -> None:
    made = Made.here(seeds=[SEED])
    torch.set_num_threads(1)
    rows = [("mingru, not carried", "mingru", 20, False)]
    for name in registered_names():
        fades = issubclass(registered(name).config, FadingConfig)
        rows += [(name, name, memory, True) for memory in (MEMORIES if fades else (None,))]
    lines = []
    for label, name, memory, carried in rows:
        options = {} if memory is None else {"memory": memory}
        cells = [f"{100 * accuracy(name, delay, carried, **options):.0f}" for delay in DELAYS]
        lines.append(f"| {label} | {memory or ''} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    write_report(
        RESULTS / "recall-across-slices" / "README.md",
        "# Recall across the slices of truncated backpropagation\n\n"
        f"A sign is asked for some steps after it was seen: right answers in %, after {STEPS} steps of training on "
        f"slices of {CONTEXT} steps, with the state carried from slice to slice, the gradient not; guessing gives 50. "
        "`memory` is the longest half-life at the start of training, in steps. One layer of width "
        f"{WIDTH}, {ROWS} rows, one seed.\n\n"
        f"| backbone | memory | {' | '.join(f'{delay} steps' for delay in DELAYS)} |\n"
        f"| --- | --- |{' --- |' * len(DELAYS)}\n" + "\n".join(lines),
        made,
    )


if __name__ == "__main__":
    main()
