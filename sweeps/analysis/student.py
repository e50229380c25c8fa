"""Student t and normal tails, fast and safe far out.

Thin names over `scipy.special` (the generic `scipy.stats` methods cost a hundred times more a call, and a
64-cell matrix makes hundreds of calls). Infinite degrees of freedom mean a known sigma: the normal.
"""

import math

from scipy import special


def two_sided_p(t: float, df: float) -> float:
    """P(|T| > |t|); exact 0 only below the smallest double (use `two_sided_log_p` there)."""
    if math.isinf(df):
        return float(math.erfc(abs(t) / math.sqrt(2)))
    return float(2 * special.stdtr(df, -abs(t)))


def upper_p(t: float, df: float) -> float:
    """P(T > t)."""
    return float(special.ndtr(-t) if math.isinf(df) else special.stdtr(df, -t))


def critical(alpha: float, df: float) -> float:
    """t with P(T > t) = alpha; give alpha / 2 for a two-sided test."""
    return float(-special.ndtri(alpha) if math.isinf(df) else -special.stdtrit(df, alpha))


def two_sided_log_p(z: float) -> float:
    """ln P(|Z| > |z|) for the normal, by log-survival: finite where p itself underflows."""
    return float(math.log(2) + special.log_ndtr(-abs(z)))


def f_upper_p(ratio: float, df_above: float, df_below: float) -> float:
    """P(F > ratio)."""
    return float(special.fdtrc(df_above, df_below, ratio))
