"""Checks sequence layers from PyPI against the contract of `decision_rnn.backbones.testing`, each in a small wrapper.

    pip install --no-deps minGRU-pytorch mambapy xlstm s5-pytorch yet-another-retnet ncps && pip install einops
    python scripts/third_party_layers.py

A wrapper implements the contract with what the layer itself offers: its parallel form if that takes the state, its
recurrent form as `step`; a parallel form without a state is used for a segment that starts an episode in every row, and
steps elsewhere. The wrapper keeps episodes apart by calling the layer once for each piece of time without a reset. Any
remaining failure is the layer's own.
"""

import json
import logging
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise

import torch
from mambapy.mamba import MambaBlock, MambaConfig
from minGRU_pytorch.minGRU import minGRU
from minGRU_pytorch.minLSTM import minLSTM
from ncps.torch import CfC
from results_folder import RESULTS, provenance, write_report
from s5 import S5
from torch import Tensor, nn
from xlstm.blocks.mlstm.layer import mLSTMLayer, mLSTMLayerConfig
from xlstm.blocks.slstm.layer import sLSTMLayer, sLSTMLayerConfig
from yet_another_retnet.retention import MultiScaleRetention

from decision_rnn.backbones import SequenceMixer, State, reset_rows
from decision_rnn.backbones.contract import run_stepwise
from decision_rnn.backbones.testing import PROPERTIES, TOLERANCES, check_mixer

WIDTH = 8
FLOAT32 = {torch.float32: TOLERANCES[torch.float32]}
FOLDER = RESULTS / "layers"


class Wrapped(SequenceMixer):
    """A layer with its episodes kept apart: `piece` gets time without a reset. `forms`: the shapes of a row's state."""

    def __init__(self, layer: nn.Module, *forms: tuple[int, ...]) -> None:
        super().__init__()
        self.layer, self.forms = layer, forms

    def initial_state(self, batch_size: int) -> State:
        like = next(part for part in self.layer.parameters() if part.is_floating_point())
        return tuple(like.new_zeros(batch_size, *form) for form in self.forms)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        cuts = [] if reset is None else reset[:, 1:].any(0).nonzero().flatten().add(1).tolist()
        initial, outputs = self.initial_state(len(x)), []
        for start, end in pairwise([0, *cuts, x.shape[1]]):
            if state is None:
                y, state = self.first(x[:, start:end])
            else:
                state = state if reset is None else reset_rows(state, initial, reset[:, start])
                y, state = self.piece(x[:, start:end], state)
            outputs.append(y)
        assert state is not None
        return torch.cat(outputs, dim=1), state

    def first(self, x: Tensor) -> tuple[Tensor, State]:
        """Time without a reset that starts with an episode's first step."""
        return self.piece(x, self.initial_state(len(x)))

    def piece(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Time without a reset: here step by step."""
        return run_stepwise(self, x, state)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, state = self.piece(x[:, None], state)
        return y[:, 0], state


class TorchGRU(Wrapped):
    def __init__(self) -> None:
        super().__init__(nn.GRU(WIDTH, WIDTH, batch_first=True), (WIDTH,))

    def piece(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, h = self.layer(x, state[0][None])
        return y, (h[0],)


class TorchLSTM(Wrapped):
    def __init__(self) -> None:
        super().__init__(nn.LSTM(WIDTH, WIDTH, batch_first=True), (WIDTH,), (WIDTH,))

    def piece(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, (h, c) = self.layer(x, (state[0][None], state[1][None]))
        return y, (h[0], c[0])


class TorchAttention(Wrapped):
    """nn.MultiheadAttention over the last WINDOW steps; the state is their inputs, and a 1 for each that exists."""

    WINDOW, HEADS = 6, 2

    def __init__(self) -> None:
        layer = nn.MultiheadAttention(WIDTH, self.HEADS, batch_first=True)
        super().__init__(layer, (self.WINDOW - 1, WIDTH), (self.WINDOW - 1,))

    def piece(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        past, time = self.WINDOW - 1, x.shape[1]
        inputs, there = torch.cat([state[0], x], dim=1), torch.cat([state[1], x.new_ones(x.shape[:2])], dim=1)
        distance = torch.arange(time)[:, None] + past - torch.arange(past + time)
        hidden = ((distance < 0) | (distance > past))[None] | (there == 0)[:, None]
        y, _ = self.layer(x, inputs, inputs, attn_mask=hidden.repeat_interleave(self.HEADS, 0), need_weights=False)
        return y, (inputs[:, -past:], there[:, -past:])


class PytorchMinGRU(Wrapped):
    """`minGRU` or `minLSTM` of minGRU-pytorch: one state in and out, sequential for one step, a log scan for more."""

    def __init__(self, kind: Callable[[int], nn.Module]) -> None:
        super().__init__(kind(WIDTH), (WIDTH,))

    def first(self, x: Tensor) -> tuple[Tensor, State]:
        y, h = self.layer(x, None, return_next_prev_hidden=True)
        return y, (h[:, 0],)

    def piece(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, h = self.layer(x, state[0][:, None], return_next_prev_hidden=True)
        return y, (h[:, 0],)


class Mambapy(Wrapped):
    """Its parallel form takes and returns no state."""

    def __init__(self) -> None:
        config = MambaConfig(d_model=WIDTH, n_layers=1, d_state=4)
        super().__init__(MambaBlock(config), (config.d_inner, 4), (config.d_inner, config.d_conv - 1))

    def first(self, x: Tensor) -> tuple[Tensor, State]:
        return self.layer(x), self.piece(x, self.initial_state(len(x)))[1]

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.layer.step(x, state)


class XlstmMLSTM(Wrapped):
    """Its parallel form takes and returns no state. `copied`: `step` is given a copy of the convolution's state."""

    def __init__(self, copied: bool) -> None:
        config = mLSTMLayerConfig(embedding_dim=WIDTH, num_heads=2, context_length=64, _num_blocks=1)
        inner, heads = config._inner_embedding_dim, 2
        size = inner // heads
        super().__init__(
            mLSTMLayer(config), (heads, size, size), (heads, size, 1), (heads, 1, 1), (config.conv1d_kernel_size, inner)
        )
        self.copied = copied

    def first(self, x: Tensor) -> tuple[Tensor, State]:
        return self.layer(x), self.piece(x, self.initial_state(len(x)))[1]

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        past = state[3].clone() if self.copied else state[3]
        y, after = self.layer.step(x[:, None], mlstm_state=state[:3], conv_state=(past,))
        return y[:, 0], (*after["mlstm_state"], *after["conv_state"])


class XlstmSLSTM(Wrapped):
    """The vanilla backend; its state has the batch second."""

    def __init__(self) -> None:
        config = sLSTMLayerConfig(embedding_dim=WIDTH, num_heads=2, backend="vanilla")
        super().__init__(sLSTMLayer(config), (4, WIDTH), (config.conv1d_kernel_size - 1, WIDTH))

    def piece(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, after = self.layer(x, state[1], state[0].transpose(0, 1).contiguous(), return_last_state=True)
        return y, (after["slstm_state"].transpose(0, 1), after["conv_state"])


class PytorchS5(Wrapped):
    """Its complex state as pairs of real numbers."""

    def __init__(self) -> None:
        super().__init__(S5(WIDTH, WIDTH), (WIDTH, 2))

    def initial_state(self, batch_size: int) -> State:
        return (self.layer.seq.D.new_zeros(batch_size, WIDTH, 2),)

    def piece(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        before, run = torch.view_as_complex(state[0].contiguous()), self.layer.seq
        y, after = torch.vmap(lambda x, h: run(x, state=h, return_state=True))(x, before)
        return y, (torch.view_as_real(after),)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        before = torch.view_as_complex(state[0].contiguous())
        y, after = torch.vmap(self.layer.seq.forward_rnn)(x, before)
        return y, (torch.view_as_real(after),)


class Retnet(Wrapped):
    """Its steps are given their position in the episode, one number for the whole batch: rows are run one by one."""

    def __init__(self) -> None:
        super().__init__(MultiScaleRetention(WIDTH, 1), (1, WIDTH, WIDTH))

    def initial_state(self, batch_size: int) -> State:
        memory = super().initial_state(batch_size)
        return *memory, torch.zeros(batch_size, dtype=torch.int64, device=memory[0].device)

    def piece(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        run = self.layer.forward_chunkwise
        rows = [run(one, one, one, start_idx=place, prev_state=memory) for one, memory, place in self.rows(x, state)]
        return torch.cat([y for y, _ in rows]), (torch.cat([after for _, after in rows]), state[1] + x.shape[1])

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        run = self.layer.forward_recurrent
        rows = [run(one, one, one, seq_idx=place, prev_state=memory) for one, memory, place in self.rows(x, state)]
        return torch.cat([y for y, _ in rows]), (torch.cat([after for _, after in rows]), state[1] + 1)

    def rows(self, x: Tensor, state: State) -> Iterable[tuple[Tensor, Tensor, int]]:
        return zip(x.split(1), state[0].split(1), state[1].tolist(), strict=True)


class NcpsCfC(Wrapped):
    def __init__(self) -> None:
        super().__init__(CfC(WIDTH, WIDTH, backbone_units=16), (WIDTH,))

    def piece(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, h = self.layer(x, state[0])
        return y, (h,)


@dataclass(frozen=True)
class Layer:
    """A layer to check; `float32`: whether it is only as accurate as that."""

    package: str
    name: str
    make: Callable[[], SequenceMixer]
    float32: bool = False


LAYERS = [
    Layer("torch", "nn.GRU", TorchGRU),
    Layer("torch", "nn.LSTM", TorchLSTM),
    Layer("torch", "nn.MultiheadAttention", TorchAttention),
    Layer("minGRU-pytorch", "minGRU", lambda: PytorchMinGRU(minGRU)),
    Layer("minGRU-pytorch", "minLSTM", lambda: PytorchMinGRU(minLSTM)),
    Layer("mambapy", "MambaBlock", Mambapy, float32=True),
    Layer("xlstm", "mLSTMLayer", lambda: XlstmMLSTM(copied=False), float32=True),
    Layer("xlstm", "mLSTMLayer, given a copied state", lambda: XlstmMLSTM(copied=True), float32=True),
    Layer("xlstm", "sLSTMLayer, vanilla", XlstmSLSTM, float32=True),
    Layer("s5-pytorch", "S5", PytorchS5, float32=True),
    Layer("yet-another-retnet", "MultiScaleRetention", Retnet),
    Layer("ncps", "CfC", NcpsCfC),
]


def text(reports: dict[str, tuple[Layer, dict[str, str]]]) -> str:
    """The report: a table with a mark for each property, then what differs in every property that fails."""
    names = [f"{layer.package} {version(layer.package)}: {layer.name}" for layer, _ in reports.values()]
    lines = [
        "# Layers from PyPI and the contract of sequence mixers",
        "",
        "Each layer wrapped as a sequence mixer (`scripts/third_party_layers.py`) and checked against the contract by",
        "`decision_rnn.backbones.testing.check_mixer`: ✓ passed, ✗ failed. The causes are in",
        "docs/third-party-layers.md.",
        "",
        f"| property | {' | '.join(str(i + 1) for i in range(len(names)))} |",
        f"|---|{'---|' * len(names)}",
    ]
    for name in (check.__name__ for check in PROPERTIES):
        marks = ["✗" if name in failures else "✓" for _, failures in reports.values()]
        lines.append(f"| `{name}` | {' | '.join(marks)} |")
    lines += ["", *(f"{i + 1}. {name}" for i, name in enumerate(names)), ""]
    for name, (layer, failures) in zip(names, reports.values(), strict=True):
        tolerances = "float32" if layer.float32 else "float64 and float32"
        lines += [f"## {name}", "", f"{len(failures)} of {len(PROPERTIES)} properties fail in {tolerances}.", ""]
        lines += [f"- `{failed}`: {reason.removesuffix('.')}." for failed, reason in failures.items()]
        lines += [""] * bool(failures)
    return "\n".join(lines)


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable()
    packages = sorted({layer.package for layer in LAYERS} - {"torch"})
    sentence = provenance(packages=packages, notes="random numbers are seeded in check_mixer")
    torch.set_num_threads(1)
    reports = {}
    for layer in LAYERS:
        tolerances = FLOAT32 if layer.float32 else TOLERANCES
        failures = check_mixer(lambda make=layer.make: make(), width=WIDTH, tolerances=tolerances, raise_error=False)
        reports[f"{layer.package} {layer.name}"] = layer, failures
        print(layer.package, layer.name, failures, flush=True)
    data = {name: failures for name, (_, failures) in reports.items()}
    write_report(FOLDER / "README.md", text(reports), sentence)
    (FOLDER / "layers.json").write_text(f"{json.dumps({'made': sentence, 'layers': data}, indent=1)}\n")


if __name__ == "__main__":
    main()
