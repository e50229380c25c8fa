"""What a tracking store has already been given: an append-only file beside the tables, disposable like them.

An *intent* is written before a run is created in the store and a *digest* after all of it is there. A run with an
intent and no digest may be half there: it is looked up in the store before anything is done about it. Without the file
everything is looked up. The store's address is kept as a hash: it may hold a password.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jobs.durable import AppendLog, read_log


def store_key(tracking_uri: str) -> str:
    return hashlib.sha256(tracking_uri.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Sent:
    """One run in the store; ``digest`` is None while it may be half there."""

    address: str | None
    digest: str | None


@dataclass
class Outbox:
    """What one store's experiment holds of one sweep, as far as this file knows."""

    path: Path
    store: str
    experiment: str
    sent: dict[str, Sent] = field(default_factory=dict)
    known: bool = False
    """Whether the file speaks of this experiment at all; else the store must be searched."""

    @staticmethod
    def load(path: Path, store: str, experiment: str) -> Outbox:
        """Read the file; lines about other stores, or about an experiment that was deleted since, do not count."""
        box = Outbox(path, store, experiment)
        for record in read_log(path)[0]:
            if record.get("store") != store or record.get("experiment") != experiment:
                continue
            box.known = True
            if run := record.get("run"):
                box.sent[run] = Sent(record.get("address"), record.get("digest"))
        return box

    @contextmanager
    def writing(self) -> Iterator[AppendLog]:
        log = AppendLog(self.path)
        try:
            yield log
        finally:
            log.close()

    def record(self, log: AppendLog, run: str | None, address: str | None, digest: str | None) -> None:
        """Append one line; it is on disk, if not yet synced, when this returns."""
        line = {"store": self.store, "experiment": self.experiment, "run": run, "address": address, "digest": digest}
        log.append(line)
        log.flush()
        if run is not None:
            self.sent[run] = Sent(address, digest)


@contextmanager
def only_one(path: Path) -> Iterator[bool]:
    """Hold a lock on ``path`` if nobody else does; yields whether it is held. It goes with the process."""
    with open(path, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
