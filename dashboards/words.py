"""Numbers and names as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

PERCENT, OWN = "pp", "units of the metric"
"""Units of a difference: percentage points where the metric is a share, else the metric's own."""


def signed(value: float | None, unit: str = PERCENT) -> str:
    """``+12.3`` or ``−0.4`` with a true minus sign; three digits where the unit is not percentage points."""
    if value is None:
        return "none"
    text = f"{value:+.1f}" if unit == PERCENT else f"{value:+.3g}"
    return ("0.0" if text in ("+0.0", "-0.0") else text).replace("-", "−")


def between(low: float, high: float, unit: str = PERCENT) -> str:
    """An interval as ``−2.0 to +3.1``; ends beyond what a difference of shares can be as ``< −100`` and ``> +100``."""
    if unit != PERCENT:
        return f"{signed(low, unit)} to {signed(high, unit)}"
    return f"{'< −100' if low < -100 else signed(low)} to {'> +100' if high > 100 else signed(high)}"


def percent(value: float | None) -> str:
    return "not known" if value is None else f"{100 * value:.1f} %"


def hours(value: float) -> str:
    """Hours for people: seconds and minutes where they are few."""
    if value * 3600 < 60:
        return f"{value * 3600:.0f} s"
    return f"{value * 60:.1f} min" if value < 1 else f"{value:.1f} h"


def level_words(level: str) -> str:
    """A factor's level for people: 0.3333333333333333 is ``1/3``, 1.0 is ``1``."""
    try:
        number = float(level)
        fraction = Fraction(number).limit_denominator(16)
    except (ValueError, OverflowError):
        return level
    return str(fraction) if math.isclose(float(fraction), number, rel_tol=1e-3) else f"{number:g}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 arm``, ``3 arms``, ``2 searches``."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def short(value: float, digits: int = 3) -> str:
    """A signed number with a true minus sign: ``+0.00930`` as ``+0.0093``."""
    return f"{value:+.{digits}g}".replace("-", "−")


def plain(value: float, digits: int = 3) -> str:
    """A number with a true minus sign and no plus."""
    return f"{value:.{digits}g}".replace("-", "−")


def p_words(p: float | None) -> str:
    """A p-value as people print it; a p that a double cannot hold is "< 1e-300"."""
    if p is None:
        return "not tested"
    if p < 1e-300:
        return "< 1e-300"
    return f"{p:.2g}" if p < 0.0995 else f"{p:.2f}"


def bracketed(names: Sequence[str], most: int = 8) -> str:
    """`` (a, b and c)``, to be put behind their number; nothing where there is none."""
    return f" ({listed(names, most)})" if names else ""


def listed(names: Sequence[str], most: int = 6) -> str:
    """``a, b and c``; ``none`` where there is none."""
    if not names:
        return "none"
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
