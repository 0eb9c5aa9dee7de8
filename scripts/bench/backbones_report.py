"""Makes results/bench/backbones.*: the cost of every layer over sequence length, as tables, picture and JSON.

pip install minGRU-pytorch mambapy einops     # optional: peers to compare with
python scripts/bench_backbones.py             # about six minutes on an idle core
"""

import json
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from peer_layers import PEERS, installed_peers, mingru_core, peer_mingru_core
from results_folder import RESULTS as ALL_RESULTS
from results_folder import Made, write_report
from torch import Tensor, nn

from bench.backbones import TORCH, WIDTH, make_layer, measure_layers
from bench.measure import Row, compare, measure
from decision_rnn.backbones import registered_names
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.utils.plots import plot_backbones

RESULTS = ALL_RESULTS / "bench"
LENGTHS, STEPS, ROUNDS = (20, 60, 250, 1000, 4096), 100_000, 5
CORE_SIZES = ((64, 20), (64, 60), (16, 1000))
TITLES = {
    "core": "minGRU's core (gates, g, recurrence) from pre-activations: forward and backward, ms; batch x length",
    "time": "Forward and backward of one layer, ms, by length",
    "memory": "Peak memory of forward and backward, MB, by length",
    "step": "One recurrent step, µs, by steps taken before",
}


def short(value: float) -> str:
    """A number with three digits and no exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(rows: list[dict[str, Any]], kind: str) -> str:
    """The rows of one kind: a line for each layer, a column for each length; the ratio in brackets."""
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        _, layer, point = row["name"].split("/")
        of, at = point.rsplit("-", 1)
        if of == kind:
            beside = "" if kind == "step" else f" ({short(row['ratio'])} x)"
            cells.setdefault(layer, {})[at] = short(row["value"]) + beside
    columns = list(dict.fromkeys(at for line in cells.values() for at in line))
    lines = [f"| | {' | '.join(columns)} |", "| --- " * (len(columns) + 1) + "|"]
    lines += [f"| {layer} | {' | '.join(line.get(at, '') for at in columns)} |" for layer, line in cells.items()]
    return "\n".join(lines)


def measure_cores() -> list[Row]:
    """Rows for minGRU's gates, g and recurrence alone, ours and minGRU-pytorch's."""
    rows, cores = [], {"mingru": mingru_core(), "minGRU_pytorch.minGRU": peer_mingru_core()}
    for batch, length in CORE_SIZES:
        x = torch.randn(batch, length, 2 * WIDTH, requires_grad=True)
        gradient = torch.randn(batch, length, WIDTH)
        works = {
            f"backbones/{name}/core-{batch}x{length}": partial(core_pass, core, x, gradient)
            for name, core in cores.items()
        }
        with one_thread():
            rows += compare(measure(works, ROUNDS, "timing minGRU's core"), list(works)[1], "ms", 1e3)
    return rows


def core_pass(core: nn.Module, x: Tensor, gradient: Tensor) -> None:
    """Forward and backward from pre-activations."""
    torch.autograd.grad(core(x)[0], [x], gradient)


def main() -> None:
    path, picture = RESULTS / "backbones.json", RESULTS / "backbones.png"
    installed = sorted({PEERS[name].distribution for name in installed_peers()})
    made = Made.here(packages=installed, notes="`decision-rnn bench backbones`, with the layers of other packages")
    torch.manual_seed(0)
    layers = {name: make_layer(name) for name in [*registered_names(), *TORCH]}
    layers |= {name: PEERS[name].make() for name in installed_peers()}
    rows = measure_layers(layers, LENGTHS, STEPS, ROUNDS)
    if "minGRU_pytorch.minGRU" in layers:
        rows += measure_cores()
    plot_backbones(rows, picture)
    plain = [asdict(row) for row in rows]
    described = {"command": made.command, "commit": made.commits[0], "hardware": made.hardware}
    path.write_text(json.dumps({**described, "versions": made.versions, "rows": plain}, indent=2) + "\n")
    write_report(RESULTS / "backbones.md", report(plain), made)


def report(rows: list[dict[str, Any]]) -> str:
    """The text of backbones.md: the rows as tables."""
    sections = [f"## {title}\n\n{table(rows, kind)}\n" for kind, title in TITLES.items() if f"/{kind}-" in str(rows)]
    return (
        "# Backbones over length\n\nOne layer of width 128 in fp32, without the stack's norms and MLP, at a batch of 8 "
        "(steps: 1), on one thread: medians of the process's CPU time, all layers in turn, round after round. In "
        "brackets: how many times better than torch.nn.GRU; in the first table, than minGRU-pytorch. Peak memory is "
        "what torch's allocator gave out at most during the pass. A layer that takes more than 1 GiB or 2 "
        "seconds at a length is left out at longer ones.\n\n![time, memory and speed over length](backbones.png)\n\n"
        + "\n".join(sections)
    )


if __name__ == "__main__":
    main()
