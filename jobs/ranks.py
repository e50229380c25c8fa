"""The processes (ranks) of one attempt, as one of them sees the others. Torch is not imported here: an attempt of one
process uses ``Ranks`` as it stands, which costs nothing; several meet in ``jobs.process_group``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Tensor = Any
"""A ``torch.Tensor``; nothing of torch is imported here."""


class PeerLost(Exception):
    """Another process of the attempt is gone or did not come. Why, is for itself to say, or for its shim."""


class PeersSilent(PeerLost):
    """The others are there, perhaps, but did not come to where all meet within the time that was given."""


@dataclass(frozen=True)
class Seat:
    """Which of the processes this is, from torch's variables."""

    rank: int = 0
    size: int = 1
    host: str = ""
    port: int | None = None
    """Where the first process is to be met (MASTER_ADDR, MASTER_PORT), as far as somebody said so."""

    @staticmethod
    def of(environ: Mapping[str, str]) -> Seat:
        port = environ.get("MASTER_PORT", "")
        return Seat(
            int(environ.get("RANK", "0")),
            int(environ.get("WORLD_SIZE", "1")),
            environ.get("MASTER_ADDR", ""),
            int(port) if port.isdigit() else None,
        )


class Ranks:
    """The one process of an attempt that has no others.

    Attributes:
        rank, size: this process among all.
        waiting: this process is where all meet and waits for the others; if it stands still, it is not the cause.
    """

    rank: int = 0
    size: int = 1
    waiting: bool = False

    def agree(self, values: Sequence[int]) -> list[int]:
        """Each place's largest value among all processes."""
        return list(values)

    def sum(self, *tensors: Tensor) -> None:
        """Add tensors of one dtype up over all processes, in place. The sum is taken in the order of the ranks by every
        process for itself: equal numbers of processes give equal bits, whatever carried them."""

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Every process's tensor (equal shapes), by rank."""
        return [tensor]

    def share(self, count: int) -> slice:
        """This process's part of ``count`` things."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def close(self) -> None:
        """The others are needed no longer."""


def alone(config: Any) -> str:
    """Why runs of a trainer's config are one process (see ``jobs.runners``)."""
    return "strategy: single is one process" if config.strategy == "single" else ""
