"""Several processes of an attempt as a group: torch.distributed, gloo for what lies in memory, NCCL for what lies on a
GPU. The first one listens (``jobs.rendezvous``), the others come."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as distributed
from torch import Tensor

from jobs.ranks import PeerLost, PeersSilent, Ranks


class Group(Ranks):
    """Joined processes. Every method is called by all of them, in the same order."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size, self.waiting = rank, size, False

    def agree(self, values: Sequence[int]) -> list[int]:
        mine = torch.tensor(values, dtype=torch.int64)
        self._meet(distributed.all_reduce, mine, op=distributed.ReduceOp.MAX)
        return mine.tolist()

    def sum(self, *tensors: Tensor) -> None:
        flat = tensors[0].reshape(-1) if len(tensors) == 1 else torch.cat([t.reshape(-1) for t in tensors])
        parts = self.gather(flat)
        total = parts[0]
        for part in parts[1:]:
            total += part
        start = 0
        for tensor in tensors:
            tensor.copy_(total[start : start + tensor.numel()].view(tensor.shape))
            start += tensor.numel()

    def gather(self, tensor: Tensor) -> list[Tensor]:
        parts = list(tensor.new_empty((self.size, *tensor.shape)).unbind(0))
        self._meet(distributed.all_gather, parts, tensor.contiguous())
        return parts

    def close(self) -> None:
        with suppress(RuntimeError):
            distributed.destroy_process_group()

    def _meet(self, collective: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        self.waiting = True
        try:
            collective(*arguments, **options)
        except RuntimeError as error:
            raise _lost(error) from error
        finally:
            self.waiting = False


def _lost(error: RuntimeError) -> PeerLost:
    """gloo and the store know only text."""
    text = str(error).partition("\n")[0].partition(". ")[0]
    kind = PeersSilent if "timed out" in text.lower() or "timeout" in text.lower() else PeerLost
    return kind(f"another process of this attempt is gone or silent ({text[:300]})")


def join(
    rank: int, size: int, host: str, port: int, *, listener: socket.socket | None, join_s: float, collective_s: float
) -> Group:
    """Meet the others.

    Args:
        listener: of rank 0: a socket that listens on ``port``.
        join_s: how long the others may take to come.
        collective_s: how long one may wait for the others later on; a watchdog should be faster.

    Raises:
        PeersSilent: not all came. PeerLost: one is gone.
    """
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        store = distributed.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
            host,
            port,
            size,
            is_master=listener is not None,
            timeout=timedelta(seconds=join_s),
            wait_for_workers=False,
            master_listen_fd=listener.detach() if listener is not None else None,
        )
        distributed.init_process_group(
            backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=collective_s)
        )
        group = Group(rank, size)
        group.agree([0])
    except RuntimeError as error:
        raise _lost(error) from error
    return group
