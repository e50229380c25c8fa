"""The page's colours: a diverging scale that survives colour blindness (orange - white - blue) and greyscale print."""

from __future__ import annotations

from itertools import pairwise

INK, MUTED, RULE, PAPER = "#1b1f24", "#6a737d", "#d8dde3", "#ffffff"
BETTER, WORSE = "#1f5fa8", "#b35806"
BASELINE, OWN = "#8a9099", "#1f5fa8"
_SCALE = {
    1: ((0.0, "#ffffff"), (0.5, "#9cc3e6"), (1.0, "#2c6fb7")),
    -1: ((0.0, "#ffffff"), (0.5, "#f6c08a"), (1.0, "#c9680c")),
}
LINES = ("#1f5fa8", "#d55e00", "#009e73", "#cc79a7", "#b38600", "#56b4e9", "#3b3f45")
FLOOR = 0.12
"""A decided cell is never as pale as nothing."""


def diverging(share: float, *, decided: bool = True) -> str:
    """Colour of a difference, from -1 (worst) to 1 (best); an undecided one is pale whatever its size."""
    sign = 1 if share >= 0 else -1
    depth = min(1.0, abs(share))
    depth = FLOOR + (1 - FLOOR) * depth if decided else 0.28 * depth
    stops = _SCALE[sign]
    for (low, pale), (high, deep) in pairwise(stops):
        if depth <= high:
            return _mix(pale, deep, (depth - low) / (high - low))
    return stops[-1][1]


def pale(share: float) -> str:
    """Background of a size from 0 to 1 that is no verdict: from near white to a pale blue."""
    return _mix("#f7f9fb", "#bcd6ee", min(1.0, max(0.0, share)))


def line(index: int) -> str:
    """Colours for lines told apart (after Okabe and Ito's set for colour-blind readers)."""
    return LINES[index % len(LINES)]


def ink_on(background: str) -> str:
    """Black or white, whichever can be read (relative luminance as in WCAG 2)."""
    red, green, blue = (_linear(int(background[i : i + 2], 16) / 255) for i in (1, 3, 5))
    return INK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.30 else PAPER


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def _mix(pale: str, deep: str, share: float) -> str:
    parts = [
        round(int(pale[i : i + 2], 16) + share * (int(deep[i : i + 2], 16) - int(pale[i : i + 2], 16)))
        for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02x}" for part in parts)
