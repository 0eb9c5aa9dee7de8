"""Layers of other packages with the methods that `bench_backbones` measures, and the core of minGRU alone."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from bench.backbones import WIDTH, make_layer
from torch import Tensor, nn


class Minimal(nn.Module):
    """A layer of minGRU-pytorch: its parallel mode in log space, and its single-step mode."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.layer = getattr(import_module(f"minGRU_pytorch.{name}"), name)(WIDTH)

    def initial_state(self, batch_size: int) -> None:
        return None

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return self.layer(x), None

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        y, state = self.layer(x[:, None], state, return_next_prev_hidden=True)
        return y[:, 0], state


class Mambapy(nn.Module):
    """mambapy's block, with its parallel scan in plain torch."""

    def __init__(self) -> None:
        super().__init__()
        package = import_module("mambapy.mamba")
        self.config = package.MambaConfig(d_model=WIDTH, n_layers=1)
        self.block = package.MambaBlock(self.config)

    def initial_state(self, batch_size: int) -> Any:
        like = next(self.block.parameters())
        return None, like.new_zeros(batch_size, self.config.d_inner, self.config.d_conv - 1)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return self.block(x), None

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.block.step(x, state)


@dataclass(frozen=True)
class Peer:
    """A layer of another package: the name to import, the name to install, and how to make the layer."""

    package: str
    distribution: str
    make: Callable[[], nn.Module]


PEERS = {
    "minGRU_pytorch.minGRU": Peer("minGRU_pytorch", "minGRU-pytorch", lambda: Minimal("minGRU")),
    "minGRU_pytorch.minLSTM": Peer("minGRU_pytorch", "minGRU-pytorch", lambda: Minimal("minLSTM")),
    "mambapy.MambaBlock": Peer("mambapy", "mambapy", Mambapy),
}
"""Layers of other packages by name, each with its own defaults."""


def installed_peers() -> list[str]:
    """The names of the layers of other packages that are installed here."""
    return [name for name, peer in PEERS.items() if find_spec(peer.package)]


class Preactivations(nn.Module):
    """Replaces a layer's linear map by the identity, so that only the layer's core is measured."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)  # layers may read its dtype and device

    def forward(self, x: Tensor) -> Tensor:
        return x


def mingru_core() -> nn.Module:
    """Our minGRU from pre-activations (batch, time, 2 * width), gates first, to h: gates, g and the recurrence."""
    mixer = make_layer("mingru")
    mixer.gates = Preactivations(mixer.gates.weight.detach())
    return mixer


def peer_mingru_core() -> nn.Module:
    """minGRU-pytorch's minGRU from pre-activations, candidates first, to h."""
    peer: Any = Minimal("minGRU")
    peer.layer.to_hidden_and_gate = Preactivations(peer.layer.to_hidden_and_gate.weight.detach())
    return peer
