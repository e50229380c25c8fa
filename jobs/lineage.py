"""What a pack's attempts hand on to each other through the manifests of checkpoints: time spent, and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Lineage:
    """Grows over all attempts of a pack.

    Attributes:
        share_s: wall seconds of training that fell to each member still training, over all attempts. A second is
            shared equally by the members that train in it, so the shares of a pack add up to its wall time.
    """

    def __init__(self, meta: Mapping[str, Any], now: float) -> None:
        self.share_s: float = meta.get("share_s", 0.0)
        self._resumes: list[str] = list(meta.get("verdicts", ()))
        self._findings: dict[str, list[str]] = {run: list(found) for run, found in meta.get("findings", {}).items()}
        self._accounted = now

    def meta(self) -> dict[str, Any]:
        """For the next checkpoint's manifest."""
        return {"share_s": self.share_s, "verdicts": self._resumes, "findings": self._findings}

    def begin(self, now: float) -> None:
        """Training begins: what was before is not counted."""
        self._accounted = now

    def account(self, now: float, training: int) -> None:
        """``training`` members have trained since the last call."""
        if training:
            self.share_s += (now - self._accounted) / training
        self._accounted = now

    def resumed(self, step: int, verdict: str) -> None:
        """A resume at ``step`` was not exact."""
        self._resumes.append(f"resumed at step {step}: {verdict}")

    def found(self, run: str, message: str) -> None:
        """A run's curve does not go on where it had stopped."""
        self._findings.setdefault(run, []).append(message)

    def verdicts(self, run: str) -> tuple[str, ...]:
        """All that keeps this run from being what an undisturbed one would be."""
        return (*self._resumes, *self._findings.get(run, ()))
