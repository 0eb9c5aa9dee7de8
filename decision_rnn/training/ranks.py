"""Data-parallel training: processes that take the same steps, each on its rows of every batch.

Gradients are averaged after every backward pass, so that all processes have the same weights, and the losses are those
of one process within rounding. The first process leads: it reads, writes, evaluates and decides what comes next, and
the others follow its orders. `training.processes` starts them on this machine; `torchrun` starts them on several GPUs
or machines.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor, distributed, nn

from decision_rnn.utils import workers
from decision_rnn.utils.errors import EnvironmentFailure
from decision_rnn.utils.workers import GROUP, LIFELINE, TORCHRUN, available_cores, thread_limits

STARTING = timedelta(minutes=2)
"""How long a process that is started here waits for the others to begin; `torchrun` ends those whose others have
died."""
PATIENCE = timedelta(days=7)
"""How long a process waits for the others: the first one may evaluate a checkpoint for hours."""


class Order(IntEnum):
    """What all processes do next."""

    STEP = 0
    SAVE = 1
    END = 2


class Ranks:
    """This process's place among those that train one model.

    Args:
        rank: This process's index; 0 leads.
        number: How many processes there are.
        group: Those processes, if there are several.
    """

    def __init__(self, rank: int = 0, number: int = 1, group: distributed.ProcessGroup | None = None) -> None:
        self.rank, self.number, self.group = rank, number, group

    def rows(self, batch: int) -> slice:
        """This process's rows of a batch."""
        if self.number == 1:
            return slice(None)
        return slice(batch * self.rank // self.number, batch * (self.rank + 1) // self.number)

    def average(self, parameters: Iterable[nn.Parameter], scalars: Sequence[Tensor]) -> list[Tensor]:
        """Average gradients, in place, and scalars over the processes; returns the scalars."""
        if self.number == 1:
            return list(scalars)
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        # A parameter without a gradient here, as where no row has a reset, may have one elsewhere.
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
        flat = torch.cat([*(gradient.flatten() for gradient in gradients), torch.stack(list(scalars))])
        with _others_alive():
            distributed.all_reduce(flat, group=self.group)
        *averaged, values = flat.div_(self.number).split([*(p.numel() for p in trained), len(scalars)])
        for parameter, gradient in zip(trained, averaged, strict=True):
            parameter.grad = gradient.view_as(parameter)
        return list(values.unbind())

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in order; empty on those that follow."""
        if self.number == 1:
            return [value]
        values = [None] * self.number if self.rank == 0 else None
        with _others_alive():
            distributed.gather_object(value, values, group=self.group)
        return values or []

    def share(self, value: Any = None) -> Any:
        """The value that the first process has, on all of them."""
        shared = [value]
        if self.number > 1:
            with _others_alive():
                distributed.broadcast_object_list(shared, group=self.group)
        return shared[0]

    def order(self, order: Order) -> None:
        """Let the others do as this process is about to; does nothing on those that follow."""
        if self.rank == 0 and self.number > 1:
            with _others_alive():
                distributed.broadcast(torch.tensor(order), 0, self.group)

    def orders(self) -> Iterator[Order]:
        """What this process is to do, one after the other, until the end."""
        order = torch.tensor(Order.STEP)
        while True:
            with _others_alive():
                distributed.broadcast(order, 0, self.group)
            if order == Order.END:
                return
            yield Order(int(order))


ALONE = Ranks()
"""The place of the only process of a run."""


@contextlib.contextmanager
def leading(processes: int) -> Iterator[Ranks]:
    """Lead the processes that `torchrun` has started with this one, or start the others on this machine; they end with
    the block.

    Raises:
        EnvironmentFailure: If one of them dies.
    """
    if TORCHRUN not in os.environ and processes == 1:
        yield ALONE
        return
    with contextlib.ExitStack() as stack:
        if TORCHRUN in os.environ:
            ranks = join()
        else:
            stack.callback(setattr, sys, "excepthook", sys.excepthook)  # torch's own stays, and says rank0 of a script
            threads = max(1, available_cores() // processes)
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(threads)
            group = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="decision-rnn-")), "group")
            places = [_place(rank, processes, group) for rank in range(processes)]
            stack.enter_context(_followers([{**place, **thread_limits(threads)} for place in places[1:]]))
            ranks = join(places[0])
        stack.callback(distributed.destroy_process_group)
        yield ranks
        ranks.order(Order.END)


def _place(rank: int, processes: int, group: str) -> dict[str, str]:
    """The environment variables of a process that is started here, named as `torchrun` names them."""
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes), GROUP: group}


@contextlib.contextmanager
def _followers(places: Sequence[dict[str, str]]) -> Iterator[None]:
    """Processes that end with the block, or with this process."""
    started = []
    try:
        for place in places:
            environment = {**os.environ, **place, LIFELINE: "1"}
            command, pipe = [*workers.PROGRAM, "train"], subprocess.PIPE
            started.append(subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe))
        for process in started:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise _gone()
        yield
        for process in started:
            process.wait()
    finally:
        for process in started:
            process.kill()
            process.communicate()


def join(place: Mapping[str, str] = os.environ) -> Ranks:
    """Take this process's place among those that train, of which the environment tells, as `torchrun` sets it: on a GPU
    of its own, if there are enough."""
    rank, number, local = (int(place[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    if local < torch.cuda.device_count():
        torch.cuda.set_device(local)
    method, waits = (f"file://{place[GROUP]}", STARTING) if GROUP in place else ("env://", PATIENCE)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    with _others_alive():
        distributed.init_process_group(backend, method, waits, number, rank)
        return Ranks(rank, number, distributed.new_group(timeout=PATIENCE))


@contextlib.contextmanager
def _others_alive() -> Iterator[None]:
    """EnvironmentFailure if the block fails because another process has died."""
    try:
        yield
    except RuntimeError as error:  # of gloo and of NCCL
        raise _gone() from error


def _gone() -> EnvironmentFailure:
    return EnvironmentFailure(
        "a process that trains with this one has died: free some memory or lower training.processes; the checkpoints "
        "are intact, so resume the run (`train` with --resume)"
    )
