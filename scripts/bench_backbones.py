"""Makes results/bench/backbones.*: the cost of every layer over sequence length, as tables, picture and JSON.

pip install minGRU-pytorch mambapy einops     # optional: peers to compare with
python scripts/bench_backbones.py             # about six minutes on an idle core
"""

import json
import subprocess
from importlib.util import find_spec
from typing import Any

from results_folder import RESULTS as ALL_RESULTS
from results_folder import Made, write_report

from decision_rnn.bench.layers import PEERS

RESULTS = ALL_RESULTS / "bench"
COMMAND = ["decision-rnn", "bench", "backbones"]
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


def main() -> None:
    path, picture = RESULTS / "backbones.json", RESULTS / "backbones.png"
    installed = sorted({peer.distribution for peer in PEERS.values() if find_spec(peer.package)})
    made = Made.here(packages=installed, notes=f"`{' '.join(COMMAND)}`")
    subprocess.run([*COMMAND, "--json", str(path), "--plot", str(picture)], check=True)
    rows = json.loads(path.read_text())
    described = {"command": " ".join(COMMAND), "commit": made.commits[0], "hardware": made.hardware}
    path.write_text(json.dumps({**described, "versions": made.versions, "rows": rows}, indent=2) + "\n")
    write_report(RESULTS / "backbones.md", report(rows), made)


def report(rows: list[dict[str, Any]]) -> str:
    """The text of backbones.md: the rows as tables."""
    sections = [f"## {title}\n\n{table(rows, kind)}\n" for kind, title in TITLES.items() if f"/{kind}-" in str(rows)]
    return (
        "# Backbones over length\n\nOne layer of width 128 in fp32, without the stack's norms and MLP, at a batch of 8 "
        "(steps: 1), on one thread: medians of the process's CPU time, all layers in turn, round after round. In "
        "brackets: how many times better than torch.nn.GRU; in the first table, than minGRU-pytorch. Peak memory is "
        "what torch's allocator gave out at most during the pass. A layer that would take more than 4 GiB or 10 "
        "seconds at a length is left out there.\n\n![time, memory and speed over length](backbones.png)\n\n"
        + "\n".join(sections)
    )


if __name__ == "__main__":
    main()
