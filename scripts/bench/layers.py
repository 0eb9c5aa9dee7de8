"""Time of a forward and backward pass of one layer by sequence length, beside torch.nn.GRU's.

    python scripts/bench/layers.py [--backbones mingru,lru] [--lengths 20,1000]

After Feng et al., "Were RNNs All We Needed?" (2024), figure 1: width 128, batch size 8, fp32, the layer alone.
"""

import argparse
from typing import Any

import torch
from measure import Row, Work, compare, main, measure
from torch import Tensor, nn

from decision_rnn.backbones import BACKBONES, registered

BATCH, WIDTH = 8, 128
TORCH: dict[str, Any] = {"torch.nn.GRU": nn.GRU, "torch.nn.LSTM": nn.LSTM}


def training_pass(layer: nn.Module, x: Tensor) -> Work:
    """Forward and backward with the gradients of the input and of the parameters."""
    gradient, inputs = torch.randn_like(x), [x, *layer.parameters()]
    return lambda: torch.autograd.grad(layer(x)[0], inputs, gradient, allow_unused=True)


def bench(options: argparse.Namespace) -> list[Row]:
    torch.manual_seed(0)
    names = options.backbones.split(",") if options.backbones else BACKBONES.names()
    layers = {name: layer(WIDTH, WIDTH, batch_first=True) for name, layer in TORCH.items()}
    layers |= {name: registered(name).cls(registered(name).config(name=name, width=WIDTH)) for name in names}
    rows = []
    for length in map(int, options.lengths.split(",")):
        x = torch.randn(BATCH, length, WIDTH, device=options.device, requires_grad=True)
        works = {f"layers/{name}/{length}": training_pass(layer.to(x.device), x) for name, layer in layers.items()}
        seconds = measure(works, options.rounds, options.device)
        rows += compare(seconds, f"layers/torch.nn.GRU/{length}", "ms", 1e3)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbones", help="names, separated by commas; all if left out")
    parser.add_argument("--lengths", default="20,60,250,1000", help="sequence lengths, separated by commas")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    main(bench, parser, rounds=5)
