"""Two one-sided tests: the only way to say "no difference" (Schuirmann 1987)."""

import numpy as np

from sweeps.analysis import student
from sweeps.analysis.errors import AnalysisError


def tost_p(difference: float, standard_error: float, df: float, margin: float) -> float:
    """p of equivalence within +-margin: the larger of the two one-sided p-values.

    Below alpha exactly when the 1 - 2 alpha interval lies inside (-margin, margin).

    Raises:
        AnalysisError: a margin or a standard error that is not positive.
    """
    if not margin > 0:
        raise AnalysisError(f"equivalence margin {margin} must be positive, in the metric's unit")
    if not standard_error > 0:
        raise AnalysisError("no spread between runs: equivalence cannot be tested")
    return max(
        student.upper_p((difference + margin) / standard_error, df),
        student.upper_p((margin - difference) / standard_error, df),
    )


def provable_margin(
    sigma: float, n_arm: int, n_baseline: int, df: float, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Smallest margin that equal arms would be proven to lie within, with the given power."""
    error = sigma * np.sqrt(1 / n_arm + 1 / n_baseline)
    high = 4 * (student.critical(alpha, df) + student.critical((1 - power) / 2, df))
    return float(error * student.solve(lambda m: _power_at_zero(m, df, alpha) - power, 1e-6, high))


def _power_at_zero(margin: float, df: float, alpha: float) -> float:
    """P(|D| < margin - t s) over the law of s, D standard normal, all in standard errors."""
    scales, weights = student.chi_nodes(df, 2000)
    room = np.maximum(0.0, margin - student.critical(alpha, df) * scales)
    return float(weights @ (1 - 2 * student.normal_upper(room)))
