"""One verdict from several tasks: Stouffer's sum, with the dependence between tasks paid for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sweeps.analysis import student
from sweeps.analysis.errors import AnalysisError


@dataclass(frozen=True)
class Combined:
    """A combined statistic.

    Attributes:
        z: sum z_i / sqrt(k + k (k - 1) rho).
        p: one-sided, P(Z > z).
        correlation: the mean pair correlation it was paid for with; 0 is the independent version, which is
            anti-conservative when tasks move together (they share the model).
    """

    z: float
    p: float
    correlation: float


def stouffer(statistics: Sequence[float], correlation: float = 0.0) -> Combined:
    """Combine z-values of k tasks.

    Args:
        statistics: one z per task, signed so that positive is better.
        correlation: mean correlation between pairs of them under the null.

    Raises:
        AnalysisError: no statistics, or a correlation outside (-1 / (k - 1), 1].
    """
    k = len(statistics)
    if not k:
        raise AnalysisError("no statistics to combine; give one z per task")
    variance = k + k * (k - 1) * correlation
    if correlation > 1 or variance <= 0:
        raise AnalysisError(f"a mean correlation of {correlation} is impossible for {k} tasks")
    z = math.fsum(statistics) / math.sqrt(variance)
    return Combined(z, student.upper_p(z, math.inf), correlation)


def mean_correlation(residuals: ArrayLike) -> float:
    """Mean pair correlation of tasks over runs.

    Args:
        residuals: shape (runs, tasks), each value less its arm's mean; at least three runs.

    Raises:
        AnalysisError: fewer than three runs or two tasks.
    """
    values = np.asarray(residuals, dtype=float)
    if values.ndim != 2 or values.shape[0] < 3 or values.shape[1] < 2:
        raise AnalysisError(f"a correlation between tasks needs 3 runs and 2 tasks, and the table is {values.shape}")
    matrix = np.corrcoef(values, rowvar=False)
    return float(np.mean(matrix[np.triu_indices_from(matrix, k=1)]))
