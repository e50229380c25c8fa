"""``python -P -m cluster.ports``: print a port that is free on this host.

The system is asked, nothing is computed from a job id, and the port lies outside the range from which the kernel gives
ports to connections, so that nobody is given it by chance while we are about to use it.
"""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

FIRST, LAST = 15000, 29999


def candidates(tries: int = 200) -> Iterable[int]:
    """Ports worth trying, in random order."""
    low, high = FIRST, LAST
    try:
        ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        if low < ephemeral <= high:
            high = ephemeral - 1
    except (OSError, ValueError):
        pass
    return random.SystemRandom().sample(range(low, high + 1), min(tries, high - low))


def free_port(ports: Iterable[int] | None = None) -> int:
    """The first of ``ports`` that nothing is bound to, on any address.

    Raises:
        OSError: all are taken.
    """
    for port in candidates() if ports is None else ports:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("", port))
                probe.listen(1)
            except OSError:
                continue
            return port
    raise OSError("every port that was tried is taken")


if __name__ == "__main__":
    try:
        print(free_port())
    except OSError as error:
        print(f"ports: {error}", file=sys.stderr)
        sys.exit(1)
