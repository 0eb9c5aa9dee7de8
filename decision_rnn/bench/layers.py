"""The layers that are compared: our mixers and, if installed, similar layers of other packages."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from decision_rnn.config_parser import chosen
from decision_rnn.errors import InputError


@dataclass(frozen=True)
class Layer:
    """A sequence layer with the common interface for measurements.

    Attributes:
        module: The module with the parameters.
        forward: (batch, time, width) -> the same shape.
        initial_state: Returns the state before the first step, for a batch of one.
        step: (1, width) and a state -> (1, width) and the next state.
    """

    module: nn.Module
    forward: Callable[[Tensor], Tensor]
    initial_state: Callable[[], Any]
    step: Callable[[Tensor, Any], tuple[Tensor, Any]]


def make_layer(name: str, width: int, device: torch.device | str = "cpu") -> Layer:
    """Make a layer by name: a registered mixer with its defaults, or one of PEERS.

    Raises:
        InputError: If the name is unknown, or its package is not installed.
    """
    if name in PEERS:
        peer = PEERS[name]
        if find_spec(peer.package) is None:
            raise InputError(f"{name} is not installed: `pip install {peer.distribution}`, or leave it out")
        return peer.make(width, device)
    registration = chosen("backbone", name)
    mixer = registration.cls(registration.config(name=name, width=width)).to(device)
    return Layer(mixer, lambda x: mixer(x)[0], lambda: mixer.initial_state(1), mixer.step)


def installed_peers() -> list[str]:
    """The names of the layers of other packages that are installed here."""
    return [name for name, peer in PEERS.items() if find_spec(peer.package)]


def _torch_recurrence(cell: type[nn.GRU] | type[nn.LSTM]) -> Callable[[int, Any], Layer]:
    def make(width: int, device: torch.device | str) -> Layer:
        module = cell(width, width, batch_first=True).to(device)

        def step(x: Tensor, state: Any) -> tuple[Tensor, Any]:
            y, state = module(x[:, None], state)
            return y[:, 0], state

        return Layer(module, lambda x: module(x)[0], lambda: None, step)

    return make


def _minimal(name: str) -> Callable[[int, Any], Layer]:
    """A layer of minGRU-pytorch: its parallel mode in log space, and its single-step mode."""

    def make(width: int, device: torch.device | str) -> Layer:
        module = getattr(import_module(f"minGRU_pytorch.{name}"), name)(width).to(device)

        def step(x: Tensor, state: Any) -> tuple[Tensor, Any]:
            y, state = module(x[:, None], state, return_next_prev_hidden=True)
            return y[:, 0], state

        return Layer(module, module, lambda: None, step)

    return make


def _mambapy(width: int, device: torch.device | str) -> Layer:
    """mambapy's block, with its parallel scan in plain torch."""
    package = import_module("mambapy.mamba")
    config = package.MambaConfig(d_model=width, n_layers=1)
    module = package.MambaBlock(config).to(device)

    def initial_state() -> tuple[None, Tensor]:
        return None, torch.zeros(1, config.d_inner, config.d_conv - 1, device=device)

    return Layer(module, module, initial_state, module.step)


@dataclass(frozen=True)
class Peer:
    """A layer of another package: the name to import, the name to install, and how to make the layer."""

    package: str
    distribution: str
    make: Callable[[int, Any], Layer]


PEERS = {
    "torch.nn.GRU": Peer("torch", "torch", _torch_recurrence(nn.GRU)),
    "torch.nn.LSTM": Peer("torch", "torch", _torch_recurrence(nn.LSTM)),
    "minGRU_pytorch.minGRU": Peer("minGRU_pytorch", "minGRU-pytorch", _minimal("minGRU")),
    "minGRU_pytorch.minLSTM": Peer("minGRU_pytorch", "minGRU-pytorch", _minimal("minLSTM")),
    "mambapy.MambaBlock": Peer("mambapy", "mambapy", _mambapy),
}
"""Layers of other packages by name, each with its own defaults."""


class Preactivations(nn.Module):
    """Replaces a layer's linear map by the identity, so that only the layer's core is measured."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)  # layers may read its dtype and device

    def forward(self, x: Tensor) -> Tensor:
        return x


def mingru_core(width: int, device: torch.device | str = "cpu") -> Callable[[Tensor], Tensor]:
    """Our minGRU from pre-activations (batch, time, 2 * width), gates first, to h: gates, g and the recurrence."""
    mixer: Any = make_layer("mingru", width, device).module
    mixer.gates = Preactivations(mixer.gates.weight.detach())
    return lambda preactivations: mixer(preactivations)[0]


def peer_mingru_core(width: int, device: torch.device | str = "cpu") -> Callable[[Tensor], Tensor]:
    """minGRU-pytorch's minGRU from pre-activations, candidates first, to h."""
    module: Any = make_layer("minGRU_pytorch.minGRU", width, device).module
    module.to_hidden_and_gate = Preactivations(module.to_hidden_and_gate.weight.detach())
    return module
