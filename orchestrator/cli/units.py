"""Numbers as a person reads them: durations and sizes. Imports nothing."""

from __future__ import annotations


def hours(value: float) -> str:
    """A duration in the unit a person thinks in."""
    if value < 1 / 60:
        return f"{value * 3600:.0f} s"
    if value < 2:
        return f"{value * 60:.0f} min"
    return f"{value:.1f} h" if value < 48 else f"{value / 24:.1f} days"


def size(value: float) -> str:
    """Bytes in decimal units."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def clip(text: str, width: int) -> str:
    """One line of at most ``width`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: max(0, width - 1)]}…"


def plural(count: int, noun: str) -> str:
    """``1 run``, ``2 runs``, ``12,000 runs``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
