"""Makes results/selective-copying/: which backbones solve the selective copying task, by number of layers.

    python scripts/selective_copying.py                                 # resumes where it stopped
    python scripts/selective_copying.py --backbones mamba --layers 3    # some rows; several may run at once
    python scripts/selective_copying.py --name selective-copying-256 --length 256 --tokens 16

Tokens at random positions among blanks have to be repeated in order once the markers come: Gu & Dao, "Mamba" (2023),
and Feng et al., "Were RNNs All We Needed?" (2024), in the form of `torch_copying_data` of state-spaces/s4. A layer
whose dynamics do not depend on its input cannot skip the blanks, and a gate that depends only on the input does not
know how many tokens came before: that takes a second layer.

Every row is a file in results/NAME/rows/: existing rows are not made again, and a killed run loses only the row in
progress.
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib import pyplot as plt
from results_folder import ROOT, Made, write_report
from results_folder import table as markdown
from torch import Tensor, nn

from decision_rnn.agent import TrainingOutput
from decision_rnn.backbones import Backbone, BackboneConfig, FadingConfig, State, registered, registered_names
from decision_rnn.config import TrainingConfig
from decision_rnn.training.trainer import Trainer
from decision_rnn.utils.files import write_atomically
from decision_rnn.utils.machine import commit, hardware, versions
from decision_rnn.utils.plots import save_figure

EVALUATE_EVERY = 100
SOLVED = 0.995
"""Accuracy at which the training of a row stops early."""
OPTIONS: dict[str, dict[str, Any]] = {
    "rnn-relu": {"activation": "relu"},
    "transformer": {"heads": 4},
}
"""Options that differ from the backbones' defaults. A hyphen in a name marks a second form of that backbone: the plain
RNN, whose recurrent matrix initially has a spectral radius of about 0.6, passes no gradient over the blanks."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The task and the training that all rows of a table share.

    Attributes:
        length: Number of positions for tokens and blanks.
        tokens: Number of tokens to copy.
        vocabulary: Number of different symbols, including the blank and the marker.
        width: Channels of the residual stream.
        steps: Maximum optimiser steps; fewer if the accuracy reaches SOLVED.
        batch_size: Sequences per step, always newly sampled.
        learning_rate: AdamW's peak rate, after 100 steps of warm-up; then it falls to zero along a cosine.
        seed: Seed of the weights and the sequences.
    """

    length: int = 64
    tokens: int = 8
    vocabulary: int = 16
    width: int = 64
    steps: int = 1500
    batch_size: int = 32
    learning_rate: float = 5e-3
    seed: int = 0


class Copier(nn.Module):
    """Embedding, backbone, and the logits of the tokens at the markers; for `Trainer`."""

    def __init__(self, config: BackboneConfig, protocol: Protocol) -> None:
        super().__init__()
        self.tokens = protocol.tokens
        self.embedding = nn.Embedding(protocol.vocabulary, config.width)
        self.backbone = Backbone(config)
        self.head = nn.Linear(config.width, protocol.vocabulary)

    def forward(self, batch: tuple[Tensor, Tensor], state: State | None = None) -> TrainingOutput:
        """The cross-entropy on problems and solutions from `sequences`; no state is carried between batches."""
        symbols, tokens = batch
        return TrainingOutput(F.cross_entropy(self.predict(symbols).flatten(0, 1), tokens.flatten()), {}, ())

    def predict(self, symbols: Tensor) -> Tensor:
        """(batch, length + tokens) of integers -> (batch, tokens, vocabulary)."""
        y, _ = self.backbone(self.embedding(symbols))
        return self.head(y[:, -self.tokens :])


def sequences(protocol: Protocol, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Problems and their solutions, (count, length + tokens) and (count, tokens) of integers.

    0 is the blank, vocabulary - 1 the marker, and the tokens are between them.
    """
    tokens = torch.randint(1, protocol.vocabulary - 1, (count, protocol.tokens), generator=generator)
    order = torch.rand(count, protocol.length, generator=generator).argsort(dim=1)
    places = order[:, : protocol.tokens].sort(dim=1).values
    symbols = torch.full((count, protocol.length + protocol.tokens), 0)
    symbols[:, protocol.length :] = protocol.vocabulary - 1
    return symbols.scatter(1, places, tokens), tokens


@torch.no_grad()
def accuracy(model: Copier, protocol: Protocol, count: int, generator: torch.Generator) -> float:
    """The share of correct tokens on new sequences."""
    right = 0
    for _ in range(count // 256):
        symbols, tokens = sequences(protocol, 256, generator)
        right += int((model.predict(symbols).argmax(-1) == tokens).sum())
    return right / (count // 256 * 256 * protocol.tokens)


def backbone_config(form: str, layers: int, protocol: Protocol) -> BackboneConfig:
    """A row's configuration: attention reaches the first token, as do the longest half-lives of what fades; MLPs are
    narrow, because the mixers are compared."""
    kind = registered(form.partition("-")[0]).config
    key = "window" if form == "transformer" else "memory" if issubclass(kind, FadingConfig) else None
    reach = {} if key is None else {key: protocol.length + protocol.tokens}
    return kind(**{"width": protocol.width, "layers": layers, "mlp_ratio": 1.0, **reach, **OPTIONS.get(form, {})})


def form_of(row: dict[str, Any]) -> str:
    """The key of OPTIONS that a row was trained with, or its backbone's name."""
    config = row["config"]
    forms = (form for form in OPTIONS if form.startswith(f"{config['name']}-"))
    return next((form for form in forms if config.items() >= OPTIONS[form].items()), config["name"])


def train_row(form: str, layers: int, protocol: Protocol) -> dict[str, Any]:
    """Train one backbone with `layers` layers, in float32 on one thread; returns its accuracy, curve and settings."""
    torch.manual_seed(protocol.seed)
    generator = torch.Generator().manual_seed(protocol.seed)
    config = backbone_config(form, layers, protocol)
    model = Copier(config, protocol)
    settings = TrainingConfig(
        steps=protocol.steps,
        warmup_steps=min(100, protocol.steps),
        learning_rate=protocol.learning_rate,
        gradient_clip=1.0,
        precision="fp32",
        device="cpu",
    )
    trainer = Trainer(model, settings)
    curve, begun = [], time.process_time()
    for step in range(1, protocol.steps + 1):
        trainer.step(sequences(protocol, protocol.batch_size, generator))
        if step % EVALUATE_EVERY == 0 or step == protocol.steps:
            curve.append([step, accuracy(model, protocol, 256, generator)])
            if curve[-1][1] >= SOLVED:
                break
    return {
        "protocol": asdict(protocol),
        "config": asdict(config),
        "parameters": sum(p.numel() for p in model.parameters()),
        "accuracy": accuracy(model, protocol, 2048, generator),
        "steps": step,
        "curve": curve,
        "cpu_seconds": round(time.process_time() - begun, 1),
        "versions": versions(("decision-rnn", "torch")),
        "hardware": hardware(),
    }


def kept_rows(folder: Path, protocol: Protocol) -> list[dict[str, Any]]:
    """The finished rows; raises SystemExit if they were made under another protocol."""
    rows = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if any(row["protocol"] != asdict(protocol) for row in rows):
        raise SystemExit(f"{folder} holds rows of another protocol: choose another --name, or remove it")
    return rows


def report(rows: list[dict[str, Any]], protocol: Protocol, folder: Path) -> None:
    """Write README.md and accuracy.png."""
    depths = sorted({row["config"]["layers"] for row in rows})
    table: dict[str, dict[int, dict[str, Any]]] = {}
    for row in rows:
        table.setdefault(form_of(row), {})[row["config"]["layers"]] = row
    best = {name: max(row["accuracy"] for row in of.values()) for name, of in table.items()}
    names = sorted(table, key=lambda name: -best[name])
    head, lines = ["backbone", *(f"{n} layer{'s' if n > 1 else ''}" for n in depths), "parameters"], []
    for name in names:
        of = table[name]
        cells = [f"{100 * of[n]['accuracy']:.1f} ({of[n]['steps']})" if n in of else "" for n in depths]
        lines.append([name, *cells, f"{of[max(of)]['parameters']:,}"])
    first = rows[0]
    differing = ", ".join(f"{name}'s {key} {v}" for name in names for key, v in OPTIONS.get(name, {}).items())
    asked = "".join(f" --{key} {v}" for key, v in asdict(protocol).items() if v != getattr(Protocol(), key))
    made = Made(
        f"python scripts/selective_copying.py --name {folder.name}{asked}",
        sorted({str(row["commit"]) for row in rows}),
        [protocol.seed],
        first["hardware"],
        first["versions"],
        "one thread, beside other work",
    )
    write_report(
        folder / "README.md",
        f"# {folder.name}\n\nAccuracy in % on 2048 fresh sequences, in brackets the steps it was trained for: "
        f"{protocol.steps}, or fewer where {100 * SOLVED:g}% were right before. {protocol.tokens} tokens of "
        f"{protocol.vocabulary - 2} kinds among {protocol.length} places; guessing gives "
        f"{100 / (protocol.vocabulary - 2):.1f}. Parameters: of the deepest. An empty place has "
        "not been trained.\n\n"
        + markdown(head, lines)
        + f"\n\n![accuracy](accuracy.png)\n\nWidth {protocol.width}, MLPs as wide, batch {protocol.batch_size}, "
        + f"AdamW at {protocol.learning_rate:g} with 100 steps of warm-up and a cosine, gradients clipped at 1, "
        + f"float32, one seed. Defaults but for {differing}; attention and the longest half-lives reach over the "
        + "whole sequence.\n\n"
        + "[rows](rows) has every row's configuration and learning curve.",
        made,
    )
    plot(table, names, depths, protocol, folder / "accuracy.png")


def plot(table: dict[str, Any], names: list[str], depths: list[int], protocol: Protocol, path: Path) -> None:
    """Plot the accuracy of every row, left, and the learning curves of the deepest, right."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), gridspec_kw={"width_ratios": [1, 1.3]})
    for n in depths:
        present = [i for i, name in enumerate(names) if n in table[name]]
        accuracies = [100 * table[names[i]][n]["accuracy"] for i in present]
        shade = 0.8 - 0.7 * depths.index(n) / max(1, len(depths) - 1)
        left.plot(accuracies, present, "o", color=plt.cm.viridis(shade), label=f"{n} layer{'s' if n > 1 else ''}")
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    left.grid(axis="y", color="0.9")
    left.set_xlabel("accuracy, %")
    for i, name in enumerate(name for name in names if depths[-1] in table[name]):
        steps, accuracies = zip(*table[name][depths[-1]]["curve"], strict=True)
        style = "-" if i < 10 else "--"
        right.plot(steps, [100 * a for a in accuracies], style, color=f"C{i % 10}", linewidth=1.4, label=name)
    right.set_xlabel(f"training step, {depths[-1]} layers")
    right.set_ylabel("accuracy, %")
    for panel in (left, right):
        panel.spines[["top", "right"]].set_visible(False)
    left.axvline(100 / (protocol.vocabulary - 2), color="0.5", linestyle=":", linewidth=1)
    right.axhline(100 / (protocol.vocabulary - 2), color="0.5", linestyle=":", linewidth=1)
    left.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(depths))
    right.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.suptitle(f"Selective copying: {protocol.tokens} tokens among {protocol.length} places", fontsize=11)
    figure.tight_layout()
    save_figure(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="selective-copying", help="folder under results/")
    parser.add_argument("--backbones", default=",".join(sorted({*registered_names(), *OPTIONS})))
    parser.add_argument("--layers", default="1,2,3")
    for key, value in asdict(Protocol()).items():
        parser.add_argument(f"--{key}", type=type(value), default=value)
    options = vars(parser.parse_args())
    name, backbones, layers = (options.pop(key) for key in ("name", "backbones", "layers"))
    protocol, folder = Protocol(**options), ROOT / "results" / name
    rows = folder / "rows"
    torch.set_num_threads(1)
    rows.mkdir(parents=True, exist_ok=True)
    kept_rows(rows, protocol)
    begun_at = commit()  # before this run's own files change
    for depth in map(int, layers.split(",")):
        for backbone in backbones.split(","):
            path = rows / f"{backbone}-{depth}.json"
            if path.exists():
                continue
            row = train_row(backbone, depth, protocol) | {"commit": begun_at}
            write_atomically(path, (json.dumps(row) + "\n").encode())
            print(f"{backbone}-{depth}: {row['accuracy']:.3f}, {row['steps']} steps", flush=True)
    report(kept_rows(rows, protocol), protocol, folder)


if __name__ == "__main__":
    main()
