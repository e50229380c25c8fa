"""The one writer of an attempt's ``facts.jsonl`` and ``metrics.jsonl``: what is buffered, and what is on disk when."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Mapping
from typing import Any

from jobs.durable import AppendLog, fsync_dir, read_log, replace_file
from jobs.facts import Fact, Finished, Product, fact_record
from jobs.identity import canonical_json
from jobs.workspace import AttemptDir


def plain(value: Any) -> float | int | str | None:
    """A JSON scalar: what is not finite becomes ``"nan"``, ``"inf"`` or ``"-inf"``."""
    if value is None or isinstance(value, str | int):
        return value
    number = float(value)
    return number if math.isfinite(number) else str(number)


class Recorder:
    """Ordinary facts and metric rows are handed to the kernel now and then. ``finished`` facts wait for ``commit``:
    products, then metrics, then the facts reach the disk, with one fsync each however many members finished.

    Everything may be called from two threads (training, and the watchdog when training hangs).
    """

    def __init__(self, attempt: AttemptDir) -> None:
        self._attempt = attempt
        self._lock = threading.RLock()
        self._facts = AppendLog(attempt.facts)
        self._metrics: AppendLog | None = None
        self._finished: list[Finished] = []
        self._new_names = True
        self._new_products = False

    @property
    def pending(self) -> bool:
        """Members have finished and are not committed yet."""
        return bool(self._finished)

    def fact(self, fact: Fact) -> None:
        with self._lock:
            if isinstance(fact, Finished):
                self._finished.append(fact)
            else:
                self._facts.append(fact_record(fact))

    def metrics(self, run: str, step: int, values: Mapping[str, float]) -> None:
        with self._lock:
            if self._metrics is None:
                self._metrics = AppendLog(self._attempt.metrics)
                self._new_names = True
            self._metrics.append({"run": run, "step": step, **{name: plain(value) for name, value in values.items()}})

    def product(self, run: str, name: str, payload: Any) -> Product:
        """Write ``products/<run>-<name>.json`` and say what it is."""
        path = self._attempt.products / f"{run}-{name}.json"
        data = canonical_json(payload)
        with self._lock:
            path.parent.mkdir(exist_ok=True)
            replace_file(path, data, sync_name=False)
            self._new_names = self._new_products = True
        return Product(
            path=str(path.relative_to(self._attempt.path)), sha256=hashlib.sha256(data).hexdigest(), bytes=len(data)
        )

    def flush(self) -> None:
        """Let readers see what there is, without waiting for the disk."""
        with self._lock:
            if self._metrics is not None:
                self._metrics.flush()
            self._facts.flush()

    def commit(self) -> None:
        """All that was recorded is on disk when this returns."""
        with self._lock:
            if self._new_products:
                fsync_dir(self._attempt.products)
                self._new_products = False
            if self._metrics is not None:
                self._metrics.flush(sync=True)
            if self._new_names:
                fsync_dir(self._attempt.path)
                self._new_names = False
            finished, self._finished = self._finished, []
            for fact in finished:
                self._facts.append(fact_record(fact))
            self._facts.flush(sync=True)

    def abandon(self) -> None:
        """The attempt is somebody else's: forget the finished facts that were not committed."""
        with self._lock:
            self._finished.clear()

    def close(self) -> None:
        with self._lock:
            if self._metrics is not None:
                self._metrics.close()
            self._facts.close()


class SilentRecorder(Recorder):
    """That of every process but the first: what happened is written once."""

    def __init__(self) -> None:
        return

    @property
    def pending(self) -> bool:
        return False

    def fact(self, fact: Fact) -> None:
        return

    def metrics(self, run: str, step: int, values: Mapping[str, float]) -> None:
        return

    def product(self, run: str, name: str, payload: Any) -> Product:
        return Product(path="", sha256="", bytes=0)

    def flush(self) -> None:
        return

    def commit(self) -> None:
        return

    def abandon(self) -> None:
        return

    def close(self) -> None:
        return


def previous_rows(attempt: AttemptDir) -> list[dict[str, Any]]:
    """Metric rows of the last attempt that left any."""
    for number in range(attempt.number - 1, 0, -1):
        rows, _ = read_log(AttemptDir(attempt.path.with_name(f"a{number}")).metrics)
        if rows:
            return rows
    return []
