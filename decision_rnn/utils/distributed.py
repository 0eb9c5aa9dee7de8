"""Data-parallel training under `torchrun`: every process takes the same steps, each on its own rows of every batch.

Without `torchrun` there is one process, and these functions return what they are given.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.elastic.multiprocessing.errors import get_error_handler
from torch.distributed.rendezvous import rendezvous

TORCHRUN = "TORCHELASTIC_RUN_ID"
"""Environment variable of processes that `torchrun` starts."""
TIMEOUT = timedelta(days=7)
"""How long a process waits for the others: the first one may evaluate a checkpoint for hours."""
_groups = itertools.count()


@contextmanager
def process_group() -> Iterator[None]:
    """Connect the processes that `torchrun` started, by NCCL and gloo, each with its own GPU if there are enough."""
    if TORCHRUN not in os.environ or distributed.is_initialized():
        yield
        return
    local_rank = int(os.environ["LOCAL_RANK"])
    if local_rank < torch.cuda.device_count():
        torch.cuda.set_device(local_rank)
    store, group_rank, size = next(rendezvous("env://"))
    # Each group has its own keys: those of an earlier group would connect some processes to its closed sockets.
    store = distributed.PrefixStore(f"group {next(_groups)}", store)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    distributed.init_process_group(backend, store=store, rank=group_rank, world_size=size, timeout=TIMEOUT)
    try:
        yield
    except Exception as error:
        get_error_handler().record_exception(error)  # for torchrun's summary
        raise
    finally:
        distributed.destroy_process_group()


def rank() -> int:
    """The index of this process; the first one, 0, writes and evaluates."""
    return int(os.environ["RANK"]) if TORCHRUN in os.environ else 0


def world_size() -> int:
    """The number of processes."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def own_rows(batch_size: int) -> slice:
    """This process's rows of a batch, or of a state with the batch first."""
    share = batch_size // world_size()
    return slice(share * rank(), share * (rank() + 1)) if world_size() > 1 else slice(None)


def average_gradients(parameters: Iterable[nn.Parameter], scalars: Sequence[Tensor]) -> list[Tensor]:
    """Average gradients, in place, and scalars over the processes; returns the scalars."""
    if world_size() == 1:
        return list(scalars)
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    # A parameter without a gradient here, as where no row has a reset, may have one in another process.
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    flat = torch.cat([*(gradient.flatten() for gradient in gradients), torch.stack(list(scalars))])
    distributed.all_reduce(flat)
    *averages, values = flat.div_(world_size()).split([*(p.numel() for p in trained), len(scalars)])
    for parameter, average in zip(trained, averages, strict=True):
        parameter.grad = average.view_as(parameter)
    return list(values.unbind())


def training_mean(count: Tensor) -> Tensor:
    """The mean of a count over the processes of a training step; the count itself without gradients, as in validation.

    A loss that divides by a number of valid entries divides by this: the processes' mean is then that of one process.
    """
    if world_size() == 1 or not torch.is_grad_enabled():
        return count
    total = count.clone().float()
    distributed.all_reduce(total)
    return total / world_size()


@contextmanager
def first_process_first() -> Iterator[None]:
    """The first process runs the block before the others do: what it has made, they open."""
    if rank() > 0:
        gather(None)
    yield
    if rank() == 0:
        gather(None)


def any_process(condition: bool) -> bool:
    """Whether a condition holds in any of the processes."""
    if world_size() == 1:
        return condition
    flag = torch.tensor(float(condition))
    distributed.all_reduce(flag, distributed.ReduceOp.MAX)
    return bool(flag)


def gather(value: Any) -> list[Any]:
    """The values of all processes, in order."""
    values = [value] * world_size()
    if world_size() > 1:
        distributed.all_gather_object(values, value)
    return values
