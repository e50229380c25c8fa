"""Read published splines: a CSV with two rows per curve, the knots and the values."""

import csv
from pathlib import Path

from models.config import FileSplineActivation
from models.errors import ModelError


def read_spline_csv(path: str | Path, curve: int) -> FileSplineActivation:
    """The ``curve``-th spline (from 0) of a CSV file of row pairs: knots, then values at these knots.

    The knots must be uniformly spaced to 1e-4 of the spacing (they were written in float32).

    Raises:
        ModelError: no such curve, an odd number of rows, rows of unequal length, knots that are not uniform, or a
            cell that is not a finite number.
    """
    path = Path(path)
    with path.open(newline="") as lines:
        rows = [row for row in csv.reader(lines) if row]
    if len(rows) % 2 or not rows:
        raise ModelError(f"{path}: expected pairs of rows (knots, values), found {len(rows)} rows")
    count = len(rows) // 2
    if not 0 <= curve < count:
        raise ModelError(f"{path}: no curve {curve}; the file has {count}, numbered 0 to {count - 1}")
    try:
        knots, values = ([float(cell) for cell in row] for row in rows[2 * curve : 2 * curve + 2])
    except ValueError as error:
        raise ModelError(f"{path}, curve {curve}: {error}") from error
    if len(knots) != len(values) or len(knots) < 2:
        raise ModelError(f"{path}, curve {curve}: {len(knots)} knots but {len(values)} values")
    spacing = (knots[-1] - knots[0]) / (len(knots) - 1)
    uneven = max(abs(knot - knots[0] - i * spacing) for i, knot in enumerate(knots))
    if not spacing > 0 or not uneven <= 1e-4 * spacing:
        raise ModelError(f"{path}, curve {curve}: the knots are not uniformly spaced and increasing")
    return FileSplineActivation(low=knots[0], high=knots[-1], values=tuple(values))
